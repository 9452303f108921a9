"""Serving engines, one per file."""
