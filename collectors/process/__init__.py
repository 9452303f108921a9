"""Processes: rank and job of this process, and child processes.

`child` runs processes that tracekit starts for itself (ranks, servers, cells of a sweep): in their
own session, and ended with all their descendants. `program` runs programs of the user: in
tracekit's session, with all signals forwarded, and never ended by tracekit.
"""
