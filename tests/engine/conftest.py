"""Fixtures of engines."""

from run_of_ranks import a_batch_each, places  # noqa: F401
from s3_server import s3  # noqa: F401
