"""Resolution of files, folders, and globs to traces and run folders.

A run folder contains a `run.json`; a sweep is a folder of run folders at any depth. Hidden folders
(unfinished runs) and subfolders of a run are ignored.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tracekit.errors import TraceError, UsageError, did_you_mean
from tracekit.ingest.trace_readers import FORMATS, is_execution_trace
from tracekit.storage import Location, Place, contains_file, natural, place_of

MANIFEST_NAME = "run.json"
REQUESTS_NAME = "requests.jsonl"
BENCHMARKS_NAME = "benchmarks.jsonl"
COUNTERS_NAME = "power.csv"
STORE_SUFFIX = ".duckdb"
_OF_RUNS = (REQUESTS_NAME, BENCHMARKS_NAME, COUNTERS_NAME)

MAX_DEPTH = 5


USUAL_GZIP_RATIO = 15
"""Approximate compression ratio of a trace, used only for block and buffer sizes."""


class Sources(NamedTuple):
    """Sources of a store: trace files, run folders, and files next to traces.

    The traces of several runs are omitted, because trace analyses cover one run.
    """

    traces: Sequence[Place]
    runs: Sequence[Place]
    counters: Sequence[Place] = ()
    execution_traces: Sequence[Place] = ()
    captures: Sequence[Place] = ()
    annotations: Sequence[Place] = ()

    @property
    def files(self) -> list[Place]:
        """All files that determine the content of the store."""
        files: list[Place] = [*self.traces, *self.counters, *self.execution_traces, *self.captures]
        files += self.annotations
        for run in self.runs:
            files.append(run / MANIFEST_NAME)
            files += [run / name for name in _OF_RUNS if contains_file(run, name)]
        return files


def has_requests(run: Place) -> bool:
    return contains_file(run, REQUESTS_NAME)


def has_benchmarks(run: Place) -> bool:
    return contains_file(run, BENCHMARKS_NAME)


def _is_execution_trace(path: Place) -> bool:
    if not (isinstance(path, Path) and path.is_file()):
        return False
    with path.open("rb") as file:
        head = file.read(512)
    with contextlib.suppress(zlib.error):
        head = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, 64)
    return is_execution_trace(head)


def _is_of_counters(path: Place) -> bool:
    """Return whether a file contains counter samples, judging by its suffix and first bytes."""
    if path.suffix not in (".csv", ".log", ".txt") or not path.is_file():
        return False
    with Location.of(path).open() as file:
        return not file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))


def runs_of_traces(traces: Iterable[Place]) -> list[Place]:
    """Return the distinct run folders of trace files, with two file system calls for each."""
    # A URL with a query may be signed for one file, so its folder is not accessed.
    folders = dict.fromkeys(trace.parent for trace in traces if not Location.of(trace).has_query)
    return [folder for folder in folders if is_run(folder)]


def find_runs(paths: Sequence[str | Place]) -> list[Place]:
    result: dict[Place, None] = {}
    for source in paths:
        path = place_of(source)
        matches = [path] if path.exists() else glob(path)
        if not matches:
            raise TraceError(f"{path}: no such file or folder", hint=close_names(path))
        for match in matches:
            if match.suffix == STORE_SUFFIX and match.is_file():
                raise TraceError(
                    f"{match}: a store cannot be combined with traces", hint="open it alone"
                )
            inside: Iterable[Place]
            if not match.is_dir():
                # A symbolic link belongs to the folder of its target.
                inside = [resolved(match).parent]
            elif isinstance(match, Path):
                inside = runs_below(match)
            else:
                inside = _runs_below_url(match)
            result.update(dict.fromkeys(resolved(run) for run in inside if is_run(run)))
    return list(result)


def resolved(place: Place) -> Place:
    """Return an absolute path without symbolic links; URLs and pipes are unchanged.

    A pipe such as ``/dev/fd/63``, from a shell's ``<(…)``, has no path.
    """
    return place.resolve() if isinstance(place, Path) and not place.is_fifo() else place


def is_run(folder: Place) -> bool:
    return contains_file(folder, MANIFEST_NAME)


def are_fragments_of_one(folders: Sequence[Place]) -> bool:
    """Return whether run folders are fragments of one job on several machines."""
    try:
        # Most traces are not in a run folder, and importing the manifest module takes 10 ms.
        from tracekit import manifest

        return manifest.are_fragments([manifest.read(folder) for folder in folders])
    except TraceError:
        return False


def runs_below(folder: Path) -> Iterator[Path]:
    base = len(folder.parts)
    for place, inside, _ in os.walk(folder):
        here = Path(place)
        if is_run(here):
            inside.clear()
            yield here
        elif len(here.parts) - base >= MAX_DEPTH:
            inside.clear()
        else:
            inside[:] = sorted(
                (name for name in inside if not name.startswith(".")),
                key=natural,
            )


def _runs_below_url(folder: Location, depth: int = 0) -> Iterator[Location]:
    if is_run(folder):
        yield folder
    elif depth < MAX_DEPTH:
        for inside in folder.entries():
            if not inside.name.startswith(".") and inside.is_dir():
                yield from _runs_below_url(inside, depth + 1)


def glob(pattern: Place) -> list[Place]:
    return [place.local_path or place for place in Location.of(pattern).glob()]


def close_names(path: Place) -> str | None:
    try:
        names = [other.name for other in Location.of(path.parent).entries()]
    except OSError:
        return None
    return did_you_mean(path.name, names)


_MAX_NAME = 100

_NOT_TRACES = frozenset({MANIFEST_NAME, REQUESTS_NAME, BENCHMARKS_NAME, "sweep.json"})

ANNOTATIONS = r"kernel_annotations_rank(\d{1,9})_.*\.(?:json|json\.gz|pkl)"


def _is_companion(name: str) -> bool:
    """Return whether a file is not a trace, but accompanies traces."""
    return name in _NOT_TRACES or re.fullmatch(ANNOTATIONS, name) is not None


def find_sources(paths: Sequence[str | Place], *, traces: bool = True) -> Sources:
    counters = [path for path in map(place_of, paths) if _is_of_counters(path)]
    if counters:
        paths = [path for path in paths if place_of(path) not in counters]
        if not paths:
            raise TraceError(
                f"{counters[0]}: counter samples without a trace",
                hint="add the trace that was recorded with them",
            )
    execution_traces: list[Place] = []
    if len(paths) > 1:
        execution_traces = [path for path in map(place_of, paths) if _is_execution_trace(path)]
        # If only execution traces are given, the reader reports the error.
        paths = [path for path in paths if place_of(path) not in execution_traces] or paths
    extra = (counters, execution_traces)
    if not traces:
        runs = find_runs(paths)
        if not runs:
            raise TraceError(
                f"{paths[0] if paths else '.'}: no run found",
                hint="a run is a folder with run.json, written by tracekit collect",
            )
        return Sources([], runs)
    try:
        result = find_traces(paths)
        runs = runs_of_traces(result)
        if runs and all(file.name in _NOT_TRACES for file in result):
            result = _traces_in(runs[0])
    except TraceError:
        runs = find_runs(paths)
        if not runs:
            raise
        result = _traces_in(runs[0])
    if len(runs) > 1 and are_fragments_of_one(runs):
        return Sources([trace for run in runs for trace in _traces_in(run)], runs, *extra)
    candidates = result if len(runs) <= 1 else []
    return Sources(candidates, runs, *extra, annotations=annotations_next_to(candidates))


def annotations_next_to(traces: Sequence[Place]) -> list[Place]:
    """Return the files of kernel annotations in the folders of local traces.

    If each step has its own folder of traces, the annotations are next to the step folders.
    """
    folders = dict.fromkeys(trace.parent for trace in traces if isinstance(trace, Path))
    folders |= {folder.parent: None for folder in folders if re.match(r"step|iter", folder.name)}
    results: list[Place] = []
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            results += [folder / one.name for one in entries if re.fullmatch(ANNOTATIONS, one.name)]
    return sorted(results, key=lambda place: natural(str(place)))


def with_captures(sources: Sources, captures: str | Place | Sequence[str | Place]) -> Sources:
    if isinstance(captures, str) or not isinstance(captures, Sequence):
        captures = [captures]
    if not captures:
        return sources
    if len(sources.traces) != 1:
        raise UsageError(
            f"{captures[0]}: the capture belongs to one trace, but {len(sources.traces)} "
            "were passed",
            hint="pass only the trace of the rank that it was captured on",
        )
    return sources._replace(captures=find_traces(captures))


def find_traces(paths: Sequence[str | Place]) -> list[Place]:
    """Return the trace files of files, folders, and globs.

    The files of a folder or glob are in natural order. If a folder has traces of several formats,
    only those of the last one in :data:`FORMATS` are returned. Other files of a run folder, such as
    ``run.json``, are omitted unless they are the only input.
    """
    if not paths:
        raise TraceError("no trace was passed", hint="pass a trace file, a folder, or a glob")
    results: list[Place] = []
    for source in paths:
        path = place_of(source)
        if path.is_dir():
            inside = _traces_in(path)
            if not inside:
                suffixes = (suffix for one in reversed(FORMATS) for suffix in one.suffixes)
                raise TraceError(
                    f"{path}: no trace in this folder",
                    hint="traces end in " + " or ".join(suffixes),
                )
            results += inside
        elif path.exists():
            results.append(path)
        elif matches := glob(path):
            for match in matches:
                results += find_traces([match]) if match.is_dir() else [match]
        else:
            raise TraceError(f"{path}: no such file or folder", hint=close_names(path))
    # A shell glob over a run folder includes the manifest.
    results = [file for file in results if not _is_companion(file.name)] or results
    unique = list(dict.fromkeys(map(resolved, results)))
    for file in unique:
        if file.suffix == ".duckdb":
            raise TraceError(
                f"{file}: a store cannot be combined with traces", hint="open it alone"
            )
    return unique


def _traces_in(folder: Place) -> list[Place]:
    entries = [*(folder.iterdir() if isinstance(folder, Path) else folder.entries())]
    # Use one format only: other files may be recordings of the same run, and a database may contain
    # anything.
    for one in reversed(FORMATS):
        inside = [
            file
            for file in entries
            if file.name.endswith(one.suffixes)
            and not _is_companion(file.name)
            and not file.name.startswith(".")
            and file.is_file()
        ]
        if inside:
            return sorted(inside, key=lambda place: natural(place.name))
    return []


@contextlib.contextmanager
def named_paths() -> Iterator[None]:
    """Convert file system errors about invalid names to a tracekit error."""
    try:
        yield
    except OSError as error:
        raise TraceError(f"{_cut(error.filename)}: {error.strerror or error}") from error


def _cut(name: object) -> str:
    text = str(name)
    return text if len(text) <= _MAX_NAME else text[:_MAX_NAME] + "…"


def usual_text_bytes(path: Place) -> int:
    """Estimate the size of a file's JSON text from the file size; 0 if unknown."""
    try:
        packed_bytes = Location.of(path).size_bytes() or 0
    except OSError:
        return 0
    return packed_bytes * (USUAL_GZIP_RATIO if path.suffix == ".gz" else 1)
