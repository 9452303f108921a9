"""Processes: those that are started, and their end; which rank of which job a process is."""
