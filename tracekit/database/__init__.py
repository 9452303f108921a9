"""Stores, which are complete DuckDB files, and the cache of stores.

The complete package ``duckdb`` is imported. Its compiled module alone would save 0.04 s of CPU time
(2 to 4 % of a breakdown), but is private and may change in any version.
"""
