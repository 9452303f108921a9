"""Writes trace files atomically, and compresses them in the background."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tracekit.errors import WorkloadError

_COMPRESSION = 5
_COPY_BYTES = 1 << 20


@contextlib.contextmanager
def complete_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path, and move the complete file to its final path.

    Other files in the temporary folder are removed, such as Kineto's own temporary file.
    """
    folder = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        folder.mkdir()
        yield folder / path.name
        (folder / path.name).replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise WorkloadError(
            f"{path}: the trace cannot be written: {reason}",
            hint="free space, or use another --out",
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compress(plain: Path) -> Path:
    """Compress a JSON trace and return its new path; after an error, the file is unchanged."""
    target = plain.with_name(f"{plain.name}.gz")
    with complete_file(target) as aside:
        pack(plain, aside)
    plain.unlink()
    return target


def pack(source: Path, target: Path) -> None:
    with (
        source.open("rb") as plain,
        gzip.GzipFile(target, "wb", compresslevel=_COMPRESSION, mtime=0) as packed,
    ):
        shutil.copyfileobj(plain, packed, _COPY_BYTES)
