"""The published figures that ours are put beside."""
