"""The evidence pack: what tracekit does on a GPU, tried out on a machine without a network.

It is no part of the package. What runs on the host outside of an environment (`run.py`, `page.py`
and what they import) needs the standard library alone.
"""
