"""The operations in the array API alone, for any array library: the definition of what they compute."""
