"""Traces as a library sees them: open a path, ask a question, get columns and rows."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tracekit import __version__
from tracekit.errors import StoreError, TraceError
from tracekit.ingest.progress import Progress
from tracekit.schema import SCHEMA_VERSION
from tracekit.sql_text import rows

if TYPE_CHECKING:
    import duckdb

    from tracekit.analysis.result import Result
    from tracekit.database import Build

BREAKDOWN = (
    "trace",
    "timeline",
    "phases",
    "modules",
    "kernel_classes",
    "communication",
    "collectives",
    "idle_causes",
    "kernels",
    "steps",
    "memcpy",
    "health",
)
"""The analyses of a breakdown, in the order in which they are read."""

_TRACE_SUFFIXES = (".json", ".json.gz")
_NOT_TRACES = frozenset({"run.json"})


class Trace:
    """One trace, or the traces of one run, ready to be asked.

    Make one with :func:`open`. It is a context manager; :meth:`close` frees its store.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        store_path: Path | None,
        resources: contextlib.ExitStack,
    ) -> None:
        self._connection = connection
        self._store_path = store_path
        self._resources = resources

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection to the store, for whatever :meth:`sql` does not do."""
        return self._connection

    @property
    def store_path(self) -> Path | None:
        """The store's file; None where it is only in memory."""
        return self._store_path

    def query(self, name: str, **params: object) -> Result:
        """Run an analysis.

        Args:
            name: of the analysis, as ``tracekit query --list`` shows it.
            **params: its parameters; the rest have their defaults.

        Raises:
            QueryError: there is no such analysis or parameter.
            UsageError: a parameter has the wrong type.
        """
        from tracekit.analysis.catalog import load_catalog
        from tracekit.analysis.run import run_analysis

        return run_analysis(self._connection, load_catalog().analysis(name), params)

    def sql(self, text: str) -> Result:
        """Run SQL over the tables and views of the store.

        Raises:
            QueryError: DuckDB refuses the statement.
        """
        from tracekit.analysis.run import run_sql

        return run_sql(self._connection, text)

    def health(self) -> Result:
        """Return what the figures of this trace rest on; the same as ``query("health")``."""
        return self.query("health")

    def breakdown(self) -> dict[str, Result]:
        """Return the results of a breakdown by analysis name, in the order of :data:`BREAKDOWN`."""
        from tracekit.analysis.catalog import load_catalog
        from tracekit.analysis.run import run_analyses

        catalog = load_catalog()
        results = run_analyses(self._connection, [catalog.analysis(name) for name in BREAKDOWN])
        return dict(zip(BREAKDOWN, results, strict=True))

    def close(self) -> None:
        """Close the store."""
        self._connection.close()
        self._resources.close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open(
    *paths: str | Path,
    cache: bool = True,
    rules: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    unsafe: bool = False,
) -> Trace:
    """Open a trace, the traces of a run, or a store.

    Args:
        *paths: trace files, folders or globs of them (the ranks of one run), or one ``.duckdb``
            store.
        cache: keep the ingested trace, so that it opens at once the next time.
        rules: a rules file for the classifier, before the built-in rules.
        progress: called now and then while a trace is read.
        unsafe: let SQL reach files, the network and DuckDB's settings.

    Raises:
        TraceError: a path does not exist, or holds no readable trace.
        StoreError: a store cannot be opened or written.
        UsageError: the rules file is not valid.
    """
    from tracekit import database
    from tracekit.analysis.derive import check_rules, queries_digest

    store = _given_store(paths)
    if store is not None:
        if rules is not None:
            raise StoreError(
                f"{store}: a store has its classes already",
                hint="give the rules when the store is made: tracekit ingest TRACE --rules FILE",
            )
        return Trace(database.open_store(store, unsafe=unsafe), store, contextlib.ExitStack())
    sources = find_traces(paths)
    rules_path = None if rules is None else Path(rules)
    if rules_path is not None:
        # Before the cache is asked: it would answer for a file that is not there, without rules.
        check_rules(rules_path)
    resources = contextlib.ExitStack()
    with contextlib.ExitStack() as on_error:
        on_error.push(resources)
        if not cache:
            build = resources.enter_context(database.build_temporary())
            _fill(build, sources, rules_path, progress)
            if not unsafe:
                database.lock(build.connection)
            on_error.pop_all()
            return Trace(build.connection, None, resources)
        cached = database.cached_store_path(sources, queries_digest(rules_path))
        connection = None
        if cached.is_file():
            # A damaged store in the cache is no reason to fail: the trace is there.
            with contextlib.suppress(StoreError):
                connection = database.open_store(cached, unsafe=unsafe)
                database.touch(cached)
        if connection is None:
            with database.build_store(cached) as build:
                _fill(build, sources, rules_path, progress)
            database.forget_older(cached)
            connection = database.open_store(cached, unsafe=unsafe)
        on_error.pop_all()
        return Trace(connection, cached, resources)


def ingest(
    paths: Sequence[str | Path],
    output: Path,
    *,
    force: bool = False,
    rules: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Path:
    """Make a store from traces.

    Args:
        paths: trace files, folders or globs of them: the ranks of one run.
        output: the store to write.
        force: replace a file that lies there.
        rules: a rules file for the classifier, before the built-in rules.
        progress: called now and then while a trace is read.

    Returns:
        The path of the store.

    Raises:
        TraceError: a path does not exist, or holds no readable trace.
        StoreError: the store exists, or cannot be written.
        UsageError: the rules file is not valid.
    """
    from tracekit import database

    if output.exists() and not force:
        raise StoreError(f"{output}: exists already", hint="--force replaces it")
    sources = find_traces(paths)
    with database.build_store(output) as build:
        _fill(build, sources, rules, progress)
    return output


def find_traces(paths: Sequence[str | Path]) -> list[Path]:
    """Return the trace files that are meant by files, folders and globs, in natural order.

    A folder stands for the ``.json`` and ``.json.gz`` files in it but ``run.json``, the manifest.

    Raises:
        TraceError: a path does not exist, or a folder or glob has no trace.
    """
    if not paths:
        raise TraceError("no trace was given", hint="name a trace file, a folder or a glob")
    found: list[Path] = []
    for given in paths:
        path = Path(given)
        if path.is_dir():
            inside = [
                file
                for file in path.iterdir()
                if file.name.endswith(_TRACE_SUFFIXES)
                and file.name not in _NOT_TRACES
                and not file.name.startswith(".")
                and file.is_file()
            ]
            if not inside:
                raise TraceError(
                    f"{path}: there is no trace in this folder",
                    hint="traces end in " + " or ".join(_TRACE_SUFFIXES),
                )
            found += sorted(inside, key=_natural)
        elif path.exists():
            found.append(path)
        elif matches := _glob(path):
            found += sorted(matches, key=_natural)
        else:
            raise TraceError(f"{path}: no such file or folder", hint=_close_names(path))
    # A shell's glob over a run's folder names its manifest too.
    found = [file for file in found if file.name not in _NOT_TRACES] or found
    unique = list(dict.fromkeys(file.resolve() for file in found))
    for file in unique:
        if file.suffix == ".duckdb":
            raise TraceError(
                f"{file}: a store cannot be mixed with traces", hint="open it by itself"
            )
    return unique


def _glob(pattern: Path) -> list[Path]:
    """Return what a glob means; its first part may be absolute."""
    anchor = Path(pattern.anchor)
    relative = pattern.relative_to(anchor) if pattern.is_absolute() else pattern
    try:
        return list(anchor.glob(str(relative)))
    except (ValueError, NotImplementedError):
        return []


def _given_store(paths: Sequence[str | Path]) -> Path | None:
    if len(paths) == 1 and Path(paths[0]).suffix == ".duckdb" and not Path(paths[0]).is_dir():
        return Path(paths[0])
    return None


def _fill(
    build: Build,
    sources: Sequence[Path],
    rules: Path | None,
    progress: Callable[[Progress], None] | None,
) -> None:
    from tracekit.analysis.derive import derive, prepare, queries_digest
    from tracekit.database import cursor_of, with_room
    from tracekit.ingest.load import forget_trace, load_trace, usual_text_bytes

    connection = build.connection
    text_bytes = sum(map(usual_text_bytes, sources))
    # DuckDB reads a block on one thread while the next one is split on another: more threads would
    # only hold more memory.
    connection.execute("SET threads = 1")
    with ThreadPoolExecutor(1, thread_name_prefix="tracekit-prepare") as pool:
        # What depends on no trace is made while the first one is read.
        prepared = pool.submit(prepare, cursor_of(connection), rules)
        if rules is not None:
            # What is wrong with the user's rules is said before a long reading, not after it.
            prepared.result()
        for trace_id, source in enumerate(sources):

            def load(source: Path = source, trace_id: int = trace_id) -> None:
                forget_trace(connection, trace_id)
                load_trace(connection, source, trace_id, build.folder, progress)

            with_room(connection, text_bytes, load)
        prepared.result()
    connection.execute("RESET threads")
    derive(connection, text_bytes)
    info = (SCHEMA_VERSION, __version__, queries_digest(rules))
    connection.execute(f"INSERT INTO store_info VALUES {rows([info])}")


def _natural(path: Path) -> tuple[object, ...]:
    """Sort rank10 behind rank9."""
    parts = re.split(r"(\d+)", path.name)
    return tuple(int(part) if part.isdigit() else part for part in parts)


def _close_names(path: Path) -> str | None:
    from difflib import get_close_matches

    try:
        names = [other.name for other in path.parent.iterdir()]
    except OSError:
        return None
    close = get_close_matches(path.name, names, n=3)
    return "did you mean " + " or ".join(close) + "?" if close else None
