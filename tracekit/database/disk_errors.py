"""What the disk answers, in one sentence."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from tracekit.errors import StoreError


@contextlib.contextmanager
def explained(final: Path) -> Iterator[None]:
    """Turn what the disk answers into one sentence."""
    from tracekit.database.engine import duckdb

    try:
        yield
    except OSError as error:
        if isinstance(error, duckdb.Error):
            raise
        raise _disk_error(final, error.errno, error.strerror or str(error)) from error
    except (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.FatalException) as error:
        text = str(error)
        is_full = "No space left" in text or "ENOSPC" in text or "max_temp_directory_size" in text
        raise _disk_error(final, errno.ENOSPC if is_full else None, text.splitlines()[0]) from error


def _disk_error(final: Path, number: int | None, text: str) -> StoreError:
    if number == errno.ENOSPC:
        return StoreError(
            f"{final}: the disk is full; nothing was written",
            hint="free space, or set TRACEKIT_CACHE_DIR, TMPDIR or -o to a folder on another disk",
        )
    return StoreError(
        f"{final}: the store cannot be written: {text}",
        hint="set TRACEKIT_CACHE_DIR or -o to a folder that can be written, or use --no-cache",
    )
