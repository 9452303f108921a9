"""Stores: DuckDB files that are whole or absent, and the cache of stores.

The package ``duckdb`` is imported as a whole. Its compiled module alone starts 0.04 s of CPU sooner
(2 to 4 % of a breakdown), by private parts that may be others in any version.
"""
