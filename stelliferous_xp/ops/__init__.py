"""The primitive operations: each checks its arguments, picks the room that computes, and calls it."""
