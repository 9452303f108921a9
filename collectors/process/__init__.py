"""Processes: rank and job of this process, and child processes."""
