"""Exclusive sections between the workers of a test session."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold the lock of a file, waiting for other workers first."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
