"""Compares two runs: splits the difference into parts and tests it against noise."""
