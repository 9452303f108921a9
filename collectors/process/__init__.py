"""Processes: rank and job of this process, and child processes.

Processes that tracekit starts for itself (ranks, servers, cells of a sweep) are a `child`: in their
own session, and ended with all their descendants. A program of the user is run by `program`: in
tracekit's session, with all signals forwarded, and never ended by tracekit.
"""
