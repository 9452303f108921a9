"""Datasets: the store of a run with many ranks, as Parquet files per table and shard."""
