"""Processes: which rank of which job this is, and those that are started and ended.

What we start for ourselves (ranks, servers, the cells of a sweep) is a `child`: in a session of its
own, and ended with all that it has started. A program of the user's is run by `program`: in our
session, with every signal going through, and never ended by us.
"""
