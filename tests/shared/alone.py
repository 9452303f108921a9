"""Exclusive sections between the workers of a test session."""

import contextlib
import fcntl


@contextlib.contextmanager
def alone(lock):
    """Hold the lock of a file, waiting for other workers first."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
