"""Folders that an assistant may access, and their traces."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from tracekit.analysis.result import Result, columns_of_text
from tracekit.errors import TraceError, UsageError
from tracekit.ingest.sources import MAX_DEPTH, STORE_SUFFIX, find_sources, is_run
from tracekit.ingest.trace_readers import FORMATS
from tracekit.storage import natural

DATASET_SUFFIX = ".tracekit"
_SUFFIXES = (*(suffix for one in FORMATS for suffix in one.suffixes), STORE_SUFFIX)
_MAX_LISTED = 5_000


def allowed(folders: Sequence[Path], name: str) -> Path:
    """Return the trace, run folder, or store at a path, which must be inside the folders."""
    listed = "open without a trace lists the available traces"
    if "://" in name or "\0" in name or not name.strip():
        raise UsageError(f"{name!r} is not the path of a trace", hint=listed)
    results = []
    for folder in folders:
        try:
            path = (folder / name).resolve(strict=True)
        except (OSError, RuntimeError):
            continue
        if _is_inside(folders, path):
            results.append(path)
    if not results:
        # Do not reveal whether files outside the folders exist.
        raise TraceError(f"{name!r}: no such trace in the served folders", hint=listed)
    path = results[0]
    for file in _files(path):
        if not (_is_inside(folders, file.resolve()) and stat.S_ISREG(file.stat().st_mode)):
            raise UsageError(
                (f"{name!r}: contains files that are not plain files inside the served folders"),
                hint=listed,
            )
    return path


def _is_inside(folders: Sequence[Path], path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _files(path: Path) -> Iterator[Path]:
    """Yield every file that opening a path reads."""
    if path.suffix == DATASET_SUFFIX and path.is_dir():
        yield from (file for file in path.rglob("*") if not file.is_dir())
    elif path.is_dir() or (path.is_file() and path.suffix != STORE_SUFFIX):
        yield from (Path(str(file)) for file in find_sources([path]).files)
    else:
        yield path


def traces_in(folders: Sequence[Path]) -> Result:
    """Return the runs, traces, and stores in the folders, with the names that assistants pass."""
    rows: list[tuple[Path, str, int | None]] = []
    for folder in folders:
        for place, inside, files in os.walk(folder):
            here = Path(place)
            names = [name for name in inside if not name.startswith(".")]
            datasets = [name for name in names if name.endswith(DATASET_SUFFIX)]
            names = [name for name in names if name not in datasets]
            is_deep = len(here.parts) - len(folder.parts) >= MAX_DEPTH
            inside[:] = [] if is_deep or is_run(here) else sorted(names, key=natural)
            if is_run(here):
                rows.append((here, "run", None))
                continue
            rows += [(here / name, "dataset", None) for name in sorted(datasets)]
            traces = sorted((one for one in files if one.endswith(_SUFFIXES)), key=natural)
            rows += [(here / one, "trace", (here / one).lstat().st_size) for one in traces]
            if len(traces) > 1 and here != folder:
                rows.append((here, f"folder of {len(traces)} traces", None))
            if len(rows) > _MAX_LISTED:
                break
    shown = [
        (next(str(path.relative_to(one)) for one in folders if path.is_relative_to(one)), kind, n)
        for path, kind, n in rows[:_MAX_LISTED]
        if _is_inside(folders, path.resolve())
    ]
    return Result("traces", columns_of_text("trace VARCHAR, kind VARCHAR, bytes BIGINT"), shown)
