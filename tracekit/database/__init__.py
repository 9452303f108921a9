"""Stores, which are DuckDB files, and the cache of stores.

tracekit imports the complete package ``duckdb``. Importing only its compiled module would save
0.04 s of CPU time (2 to 4 % of a breakdown), but that module is private and may change in any
version.
"""
