"""Readers of trace formats, one per profiler."""
