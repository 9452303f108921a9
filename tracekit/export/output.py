"""Atomic writer of an export's output file, with a maximum size."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tracekit.errors import QueryError, StoreError
from tracekit.storage.temp_dirs import atomic_path

STDOUT = Path("-")


class Bounded:
    """Counts written bytes, and raises an error above the limit."""

    def __init__(self, write: Callable[[bytes], object], max_bytes: int) -> None:
        self._write = write
        self._max_bytes = max_bytes
        self.size_bytes = 0

    def write(self, block: bytes) -> None:
        self.size_bytes += len(block)
        if self.size_bytes > self._max_bytes:
            raise QueryError(
                f"the export is larger than {self._max_bytes / 1e6:,.0f} MB, the limit of viewers",
                hint="select a part with --ranks, --steps, or --from and --to; omit "
                "arguments with --no-args; or raise --max-size",
            )
        self._write(block)


@contextlib.contextmanager
def written_atomically(path: Path, *, force: bool, max_bytes: int) -> Iterator[Bounded]:
    """Yield a writer for a file, which appears only if the block ends without an error."""
    if path == STDOUT:
        # Bypass the wrapper of stdout that escapes CI commands, because this is file content.
        stdout = getattr(sys.stdout, "stream", sys.stdout).buffer
        yield Bounded(stdout.write, max_bytes)
        stdout.flush()
        return
    if os.path.lexists(path) and not force:
        raise StoreError(f"{path}: already exists", hint="use --force to replace it")
    try:
        with atomic_path(path) as building, building.open("xb", buffering=0) as file:
            yield Bounded(file.write, max_bytes)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error
