"""Gradient compression as communication hooks of DistributedDataParallel, one method per file."""
