"""Datasets: the store of a run with many ranks as Parquet files by table and rank."""
