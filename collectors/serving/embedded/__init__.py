"""The embedded serving engine."""
