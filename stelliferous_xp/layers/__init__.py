"""The layers, one file a family, and the functions over any layer."""
