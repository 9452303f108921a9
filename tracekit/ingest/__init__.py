"""Ingestion of trace files into the tables of a store."""
