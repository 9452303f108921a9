"""Datasets: stores of many ranks as Parquet files, per table and shard."""
