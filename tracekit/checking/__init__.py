"""Checks runs against rules and baselines, for CI."""
