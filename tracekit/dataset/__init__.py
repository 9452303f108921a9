"""Datasets: the store of a run as Parquet files, by table and rank, for runs of many ranks.

- :mod:`tracekit.dataset.layout`: which tables there are, and where each lies.
"""
