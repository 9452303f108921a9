"""Comparison of two runs: the difference, its parts, and its noise."""
