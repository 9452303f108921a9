"""Pack what is to come back into a few files of bounded size, the most telling first."""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from evidence._trim import trim

_TRACE_SHARE = 0.25
"""A trace larger than this share of a file is cut to one step."""

_LOG_BYTES = 200_000
# What tar adds to each file.
_HEADER_BYTES = 1536


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many files may come back, and how large one may be."""

    file_count: int
    file_bytes: int


def bring_back(runs: Path, logs: Path, out: Path, name: str, bounds: Bounds) -> list[str]:
    """Pack run folders and logs.

    Args:
        runs: the run folders; they are changed: long traces are cut.
        logs: what the items said.
        out: takes `NAME-logs.tar.gz` and `NAME-runs-<N>.tar.gz`.
        name: of the part.
        bounds: of the files.

    Returns:
        What did not fit, a sentence each.
    """
    left: list[str] = []
    for old in out.glob(f"{name}-*.tar.gz"):
        old.unlink()
    for log in sorted(logs.rglob("*.log")):
        _shorten(log)
    # The logs, and the figures of every run, before any trace.
    small = out / f"{name}-logs.tar.gz"
    with tarfile.open(small, "w:gz") as archive:
        archive.add(logs, "logs")
        for folder in _folders(runs):
            archive.add(folder / "run.json", f"runs/{folder.relative_to(runs)}/run.json")
    if small.stat().st_size > bounds.file_bytes:
        left.append(f"{small.name}: {small.stat().st_size / 1e6:.1f} MB")
        small.unlink()
    bins: list[tuple[int, list[Path]]] = []
    # In the order in which they were made, which is that of their worth.
    for folder in sorted(_folders(runs), key=lambda path: (path / "run.json").stat().st_mtime_ns):
        left += _cut_traces(folder, runs, bounds)
        size = _size(folder)
        if size > bounds.file_bytes:
            left.append(f"{folder.relative_to(runs)}: {size / 1e6:.1f} MB")
            continue
        for number, (used, folders) in enumerate(bins):
            if used + size <= bounds.file_bytes:
                bins[number] = (used + size, [*folders, folder])
                break
        else:
            if len(bins) < bounds.file_count - 1:
                bins.append((size, [folder]))
            else:
                left.append(f"{folder.relative_to(runs)}: its trace; run.json is with the logs")
    for number, (_, folders) in enumerate(bins, 1):
        with tarfile.open(out / f"{name}-runs-{number}.tar.gz", "w:gz", compresslevel=6) as archive:
            for folder in folders:
                archive.add(folder, f"runs/{folder.relative_to(runs)}")
    return left


def _folders(runs: Path) -> list[Path]:
    return sorted(path.parent for path in runs.rglob("run.json"))


def _cut_traces(folder: Path, runs: Path, bounds: Bounds) -> list[str]:
    """Cut traces that are too long to one step; return what could not be kept at all."""
    left = []
    for trace in sorted(folder.glob("*.json.gz")):
        if trace.stat().st_size <= _TRACE_SHARE * bounds.file_bytes:
            continue
        aside = trace.with_name(f".{trace.name}")
        try:
            if trim(trace, aside):
                aside.replace(trace)
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            left.append(f"{trace.relative_to(runs)}: could not be cut: {error}")
            aside.unlink(missing_ok=True)
        if trace.stat().st_size > bounds.file_bytes - _HEADER_BYTES * 8:
            left.append(f"{trace.relative_to(runs)}: {trace.stat().st_size / 1e6:.1f} MB")
            trace.unlink()
    return left


def _size(folder: Path) -> int:
    """Return the size of a folder in an archive, hardly less than the sum of its files."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sum(path.stat().st_size + _HEADER_BYTES for path in files) + _HEADER_BYTES


def _shorten(log: Path) -> None:
    """Keep the beginning and the end of a long log."""
    size = log.stat().st_size
    if size <= _LOG_BYTES:
        return
    with log.open("rb") as file:
        head = file.read(_LOG_BYTES // 2)
        file.seek(size - _LOG_BYTES // 2)
        tail = file.read()
    aside = log.with_suffix(".short")
    aside.write_bytes(head + b"\n[... left out ...]\n" + tail)
    shutil.move(aside, log)
