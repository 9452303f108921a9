"""Collects complete traces from the server's trace folder.

Servers answer the stop call before their traces are written: files appear late and grow.
"""

from __future__ import annotations

import gzip
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from tracekit.redaction import Redactor

TraceOrder = Callable[[str], tuple[int, ...] | None]

_POLL_S = 0.2
_QUIET_S = 1.0
_BLOCK_BYTES = 1 << 20


class TraceFolder:
    """A server's trace folder; existing files do not belong to this run.

    `order` returns the sort key of a trace by rank, or None for a file that belongs to no rank.
    """

    def __init__(self, path: Path, glob: str, order: TraceOrder, redactor: Redactor) -> None:
        self.path = path
        self._redactor = redactor
        self._glob = glob
        self._order = order
        self._old = self._sizes()

    def collect(
        self, into: Path, expected_count: int | None, timeout_s: float, tick: Callable[[], None]
    ) -> tuple[list[str], str | None]:
        """Copy new traces once complete; return their names, and a note on missing ones."""
        deadline = time.monotonic() + timeout_s
        seen: dict[Path, tuple[int, int]] = {}
        complete: set[Path] = set()
        quiet_since = time.monotonic()
        while True:
            sizes = {
                path: size for path, size in self._sizes().items() if self._old.get(path) != size
            }
            if sizes != seen:
                complete -= {path for path in complete if sizes.get(path) != seen.get(path)}
                quiet_since = time.monotonic()
            else:
                # Skip files that still grow, because the check reads the entire file.
                complete |= {path for path in sizes if path not in complete and is_complete(path)}
            seen = sizes
            is_quiet = time.monotonic() - quiet_since >= _QUIET_S
            is_enough = len(complete) >= (expected_count or 1)
            if sizes and len(complete) == len(sizes) and is_enough and is_quiet:
                break
            if time.monotonic() >= deadline:
                break
            tick()
            time.sleep(_POLL_S)
        by_rank = sorted(complete, key=lambda path: (self._order(path.name) or (), path.name))
        names = []
        for rank, path in enumerate(by_rank):
            names.append(f"rank{rank}.json.gz")
            _copy_compressed(path, into / names[-1], self._redactor)
        wanted = max(expected_count or 1, len(seen))
        if len(names) >= wanted:
            return names, None
        if seen:
            note = f"only {len(names)} of {wanted} traces in {self.path} were complete after"
            return names, f"{note} {timeout_s:g} s"
        if self.path.is_dir():
            return names, f"no trace appeared in {self.path} within {timeout_s:g} s"
        return names, f"no trace: {self.path} is not a folder on this machine (--trace-dir)"

    def _sizes(self) -> dict[Path, tuple[int, int]]:
        sizes = {}
        for path in self.path.glob(self._glob):
            if not path.name.endswith((".json", ".json.gz")) or self._order(path.name) is None:
                continue
            try:
                stat = path.stat()
            except OSError:
                continue
            sizes[path] = (stat.st_size, stat.st_mtime_ns)
        return sizes


def is_complete(path: Path) -> bool:
    try:
        size_bytes = path.stat().st_size
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as text:
                while text.read(_BLOCK_BYTES):
                    continue
            return size_bytes > 0
        with path.open("rb") as file:
            file.seek(max(0, size_bytes - 64))
            return file.read().rstrip().endswith((b"}", b"]"))
    except (OSError, EOFError, zlib.error):
        return False


def _copy_compressed(source: Path, target: Path, redactor: Redactor) -> None:
    """Copy a trace as gzip; a compressed trace without secrets is copied unchanged."""
    is_packed = source.suffix == ".gz"
    with gzip.open(source) if is_packed else source.open("rb") as opened:
        read = cast("IO[bytes]", opened)
        if is_packed and not any(redactor.is_in(data) for data in _overlapping(read, redactor)):
            shutil.copyfile(source, target)
            return
        read.seek(0)
        with gzip.open(target, "wb", compresslevel=6) as written:
            redactor.copy(read, cast("IO[bytes]", written))


def _overlapping(file: IO[bytes], redactor: Redactor) -> Iterator[bytes]:
    """Yield overlapping blocks of a file, so that no secret is split; no blocks without secrets."""
    rest = b""
    while redactor.longest_bytes and (block := file.read(_BLOCK_BYTES)):
        data = rest + block
        yield data
        rest = data[-redactor.longest_bytes :]
