"""Which traces and run folders are meant by files, folders and globs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tracekit.errors import TraceError
from tracekit.ingest.run_folders import (
    BENCHMARKS_NAME,
    MANIFEST_NAME,
    REQUESTS_NAME,
    Sources,
    are_fragments_of_one,
    close_names,
    find_runs,
    glob,
    natural,
    resolved,
    runs_of_traces,
)
from tracekit.storage import Place, place_of

_TRACE_SUFFIXES = (".json", ".json.gz")

_MAX_NAME = 100

_NOT_TRACES = frozenset({MANIFEST_NAME, REQUESTS_NAME, BENCHMARKS_NAME, "sweep.json"})


def find_sources(paths: Sequence[str | Place], *, traces: bool = True) -> Sources:
    """Return the traces and the run folders that are meant by files, folders and globs.

    Args:
        paths: trace files, run folders, folders of run folders, globs of any; also URLs.
        traces: look for traces. Without it only for runs.

    Raises:
        TraceError: a path does not exist, or there is neither trace nor run.
    """
    if not traces:
        runs = find_runs(paths)
        if not runs:
            raise TraceError(
                f"{paths[0] if paths else '.'}: there is no run here",
                hint="a run is a folder with run.json, which tracekit collect makes",
            )
        return Sources([], runs)
    try:
        found = find_traces(paths)
        runs = runs_of_traces(found)
        if runs and all(file.name in _NOT_TRACES for file in found):
            found = _traces_in(runs[0])
    except TraceError:
        runs = find_runs(paths)
        if not runs:
            raise
        found = _traces_in(runs[0])
    if len(runs) > 1 and are_fragments_of_one(runs):
        return Sources([trace for run in runs for trace in _traces_in(run)], runs)
    return Sources(found if len(runs) <= 1 else [], runs)


def find_traces(paths: Sequence[str | Place]) -> list[Place]:
    """Return the trace files that are meant by files, folders and globs, in natural order.

    A folder stands for the ``.json`` and ``.json.gz`` files in it but ``run.json``, the manifest.

    Raises:
        TraceError: a path does not exist, or a folder or glob has no trace.
    """
    if not paths:
        raise TraceError("no trace was given", hint="name a trace file, a folder or a glob")
    found: list[Place] = []
    for given in paths:
        path = place_of(given)
        if path.is_dir():
            inside = _traces_in(path)
            if not inside:
                raise TraceError(
                    f"{path}: there is no trace in this folder",
                    hint="traces end in " + " or ".join(_TRACE_SUFFIXES),
                )
            found += inside
        elif path.exists():
            found.append(path)
        elif matches := glob(path):
            for match in matches:
                found += find_traces([match]) if match.is_dir() else [match]
        else:
            raise TraceError(f"{path}: no such file or folder", hint=close_names(path))
    # A shell's glob over a run's folder names its manifest too.
    found = [file for file in found if file.name not in _NOT_TRACES] or found
    unique = list(dict.fromkeys(map(resolved, found)))
    for file in unique:
        if file.suffix == ".duckdb":
            raise TraceError(
                f"{file}: a store cannot be mixed with traces", hint="open it by itself"
            )
    return unique


def _traces_in(folder: Place) -> list[Place]:
    """Return the traces that lie in a folder, in natural order."""
    entries: Iterable[Place] = folder.iterdir() if isinstance(folder, Path) else folder.entries()
    inside = [
        file
        for file in entries
        if file.name.endswith(_TRACE_SUFFIXES)
        and file.name not in _NOT_TRACES
        and not file.name.startswith(".")
        and file.is_file()
    ]
    return sorted(inside, key=natural)


@contextlib.contextmanager
def named_paths() -> Iterator[None]:
    """Turn what the disk answers to a name that it cannot look up into one sentence."""
    try:
        yield
    except OSError as error:
        raise TraceError(f"{_cut(error.filename)}: {error.strerror or error}") from error


def _cut(name: object) -> str:
    text = str(name)
    return text if len(text) <= _MAX_NAME else text[:_MAX_NAME] + "…"
