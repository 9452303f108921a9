"""Finds, parses, and runs SQL files. It does not format results."""
