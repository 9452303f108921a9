"""Datasets: the store of a run with many ranks as Parquet files by table and rank.

- :mod:`tracekit.dataset.layout`: the tables and their files.
"""
