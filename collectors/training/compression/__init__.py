"""Gradient compression as communication hooks of DistributedDataParallel, one method per file.

A file without a leading underscore is a method: it has `install(ddp_model, **options)`, which hooks
the model and returns its `Compression`.
"""

from ._install import install, methods

__all__ = ["install", "methods"]
