"""Traces as a library sees them: open a path, ask a question, get columns and rows."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tracekit import __version__
from tracekit.errors import QueryError, StoreError, TraceError, UsageError
from tracekit.ingest.progress import Progress
from tracekit.ingest.run_folders import (
    BENCHMARKS_NAME,
    MANIFEST_NAME,
    REQUESTS_NAME,
    Sources,
    are_parts_of_one,
    close_names,
    find_runs,
    glob,
    has_benchmarks,
    has_requests,
    natural,
    runs_of_traces,
)
from tracekit.schema import SCHEMA_VERSION
from tracekit.sql_text import quote, rows

if TYPE_CHECKING:
    import duckdb

    from tracekit.analysis.ceilings import Sources as CeilingSources
    from tracekit.analysis.result import Result, RowStream
    from tracekit.analysis.spec import Spec
    from tracekit.database import Build
    from tracekit.ingest.reading import Reading

BREAKDOWN = (
    "trace",
    "unrecorded",
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

HEALTH = "health"

RUN_HEALTH = "run_health"
"""What a run adds to the health of its traces."""

RUN_BREAKDOWN = ("run",)
"""What a breakdown has besides where the traces lie in a run folder."""

SERVING_BREAKDOWN = ("throughput", "latency", "latency_cdf")
"""And what it has where requests were recorded."""

SERVED_BREAKDOWN = ("serving_window", "serving_modules")
"""And where there are traces of such a run."""

BENCH_BREAKDOWN = ("bench_gemm", "bench_memcpy", "bench_collectives", "bench_launches")
"""And where microbenchmarks were measured."""

_REQUEST_MACROS = frozenset({"request_times", "request_latency"})
"""What an analysis of runs requires if it is about nothing but their requests."""

_BENCH_MACROS = frozenset({"bench_points"})
"""And what if it is about nothing but their microbenchmarks."""

T = TypeVar("T")

_log = logging.getLogger("tracekit")

_TRACE_SUFFIXES = (".json", ".json.gz")
_MAX_NAMED = 10
_MAX_NAME = 100
_NOT_TRACES = frozenset({MANIFEST_NAME, REQUESTS_NAME, BENCHMARKS_NAME, "sweep.json"})


class _Contents(NamedTuple):
    """What a store holds, as far as that decides which questions it answers."""

    has_traces: bool
    runs: tuple[str, ...]
    has_requests: bool
    has_benchmarks: bool


class Trace:
    """One trace, the traces of one run, or the manifests of several, ready to be asked.

    Make one with :func:`open`. It is a context manager; :meth:`close` frees its store.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        store_path: Path | None,
        resources: contextlib.ExitStack,
        contents: _Contents | None = None,
        answers: Mapping[str, Result] | None = None,
        renew: Callable[[contextlib.ExitStack], duckdb.DuckDBPyConnection] | None = None,
    ) -> None:
        self._renew = renew
        self._ceilings: CeilingSources | None = None
        self._ceiling_folders: Sequence[Path] = ()
        self._has_ceilings = False
        self._connection = connection
        self._is_closed = False
        self._store_path = store_path
        self._resources = resources
        self._known_contents = contents
        self._answers = dict(answers or {})

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection to the store, for whatever :meth:`sql` does not do.

        Raises:
            StoreError: the trace is closed.
        """
        if self._is_closed:
            raise StoreError("the trace is closed", hint="ask before close(), inside of its with")
        if not self._has_ceilings:
            from tracekit.analysis import ceilings

            sources = self._ceilings or ceilings.Sources(folders=self._ceiling_folders)
            ceilings.lay(self._connection, sources)
            self._has_ceilings = True
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
            QueryError: there is no such analysis or parameter, or nothing here that it is about.
            UsageError: a parameter has the wrong type, or the analysis is about one run and here
                are several.
        """
        return self._ask(lambda: self._query(name, params))

    def _ask(self, question: Callable[[], T]) -> T:
        """Return the answer to a question; a cached store that is damaged is made again first."""
        from tracekit.database import DamagedStoreError

        try:
            return question()
        except DamagedStoreError:
            if self._renew is None or self._is_closed:
                raise
            renew, self._renew = self._renew, None
            self._connection.close()
            self._connection = renew(self._resources)
            self._has_ceilings = False
            return question()

    def _query(self, name: str, params: Mapping[str, object]) -> Result:
        from tracekit.analysis.catalog import load_catalog
        from tracekit.analysis.run import run_analysis

        spec = load_catalog().analysis(name)
        if name == HEALTH and self._contents.runs and not params:
            of_traces = None
            if self._contents.has_traces:
                of_traces = run_analysis(self.connection, spec, params)
            return self._with_health_of_run(of_traces)
        self._check_scope(spec)
        return run_analysis(self.connection, spec, params)

    def sql(self, text: str) -> Result:
        """Run SQL over the tables and views of the store.

        Raises:
            QueryError: DuckDB refuses the statement.
        """
        from tracekit.analysis.run import run_sql

        return self._ask(lambda: run_sql(self.connection, text))

    def stream_sql(self, text: str, *, timeout_s: float | None = None) -> RowStream:
        """Run SQL whose rows are made while they are taken, so that any number of them fits.

        Nothing else may be asked until the last row has been taken.

        Args:
            text: the SQL.
            timeout_s: how long it may take until the last row is there, seconds.

        Raises:
            QueryError: DuckDB refuses the statement, or it takes too long; also while rows are
                taken.
        """
        from tracekit.analysis.run import stream_sql

        return self._ask(lambda: stream_sql(self.connection, text, timeout_s=timeout_s))

    def health(self) -> Result:
        """Return what the figures of this trace rest on; the same as ``query("health")``."""
        return self.query("health")

    def breakdown(self) -> dict[str, Result]:
        """Return the results of a breakdown by analysis name.

        They are those of :data:`BREAKDOWN`, in this order; of a run folder also those of
        :data:`RUN_BREAKDOWN`, with requests those of :data:`SERVING_BREAKDOWN` and
        :data:`SERVED_BREAKDOWN`, and with microbenchmarks those of :data:`BENCH_BREAKDOWN`.

        Raises:
            UsageError: there are several runs here.
        """
        return self._ask(self._breakdown)

    def _breakdown(self) -> dict[str, Result]:
        from tracekit.analysis.catalog import load_catalog
        from tracekit.analysis.run import run_analyses

        contents = self._contents
        names: list[str] = [*BREAKDOWN] if contents.has_traces else []
        if contents.runs:
            names[1:1] = RUN_BREAKDOWN
            if contents.has_requests:
                served = SERVED_BREAKDOWN if contents.has_traces else ()
                names[2:2] = [*SERVING_BREAKDOWN, *served]
            if contents.has_benchmarks:
                names += BENCH_BREAKDOWN
        if not contents.has_traces and len(contents.runs) > 1:
            raise _several("breakdown", contents.runs)
        catalog = load_catalog()
        open_names = [name for name in names if name not in self._answers]
        specs = [catalog.analysis(name) for name in open_names]
        answers = self._answers | dict(
            zip(open_names, run_analyses(self.connection, specs), strict=True)
        )
        found = {name: answers[name] for name in names}
        if contents.runs:
            found[HEALTH] = self._with_health_of_run(found.get(HEALTH))
        return found

    def _with_health_of_run(self, of_traces: Result | None) -> Result:
        """Return the health of traces with what their run's manifest says of itself."""
        from tracekit.analysis.catalog import load_catalog
        from tracekit.analysis.result import Column, Result
        from tracekit.analysis.run import run_analysis

        # Traces are read of one run; the parts of a job are one.
        if len(self._contents.runs) > 1 and not self._contents.has_traces:
            raise _several(HEALTH, self._contents.runs)
        catalog = load_catalog()
        of_run = run_analysis(self.connection, catalog.analysis(RUN_HEALTH), {})
        columns = tuple(Column(c.name, c.type) for c in catalog.analysis(HEALTH).columns)
        before = [] if of_traces is None else of_traces.rows
        return Result(HEALTH, columns, before + [(None, *row[1:]) for row in of_run])

    @property
    def _contents(self) -> _Contents:
        if self._known_contents is None:
            from tracekit.analysis.run import run_sql

            (found,) = run_sql(
                self.connection,
                "SELECT EXISTS (FROM trace), list(path ORDER BY rowid), EXISTS (FROM request), "
                "EXISTS (FROM benchmark) FROM run",
            )
            self._known_contents = _Contents(found[0], tuple(found[1] or ()), *found[2:])
        return self._known_contents

    def _check_scope(self, spec: Spec) -> None:
        """Make sure that there is what an analysis is about.

        Raises:
            QueryError: there is nothing of the kind.
            UsageError: there are several runs, and it is about the traces of one.
        """
        contents = self._contents
        if spec.scope == "runs":
            if not contents.runs:
                raise QueryError(
                    f"{spec.name} is about runs, and there is no run.json beside the trace",
                    hint="tracekit collect writes one; give the folder that it made",
                )
            if not contents.has_requests and not _REQUEST_MACROS.isdisjoint(spec.requires):
                count = len(contents.runs)
                have = f"{contents.runs[0]} has" if count == 1 else f"the {count} runs have"
                raise QueryError(
                    f"{spec.name} is about requests, and {have} none",
                    hint="tracekit collect --stage serve records them",
                )
            if not contents.has_benchmarks and not _BENCH_MACROS.isdisjoint(spec.requires):
                count = len(contents.runs)
                have = f"{contents.runs[0]} has" if count == 1 else f"the {count} runs have"
                raise QueryError(
                    f"{spec.name} is about microbenchmarks, and {have} none",
                    hint="tracekit bench measures them",
                )
        elif not contents.has_traces:
            if len(contents.runs) > 1:
                raise _several(spec.name, contents.runs)
            raise QueryError(
                f"{spec.name} is about traces, and {contents.runs[0]} has none",
                hint="tracekit query run shows how the run ended",
            )

    def close(self) -> None:
        """Close the store."""
        self._is_closed = True
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
    traces: bool = True,
    cache: bool = True,
    rules: str | Path | None = None,
    ceilings: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    unsafe: bool = False,
    expect_breakdown: bool = False,
) -> Trace:
    """Open a trace, the traces of a run, or a store.

    Of a run folder, its manifest, requests and microbenchmarks are read too; also where one of its
    traces is given. Of several runs nothing else is read, for analyses of scope ``runs``.

    Args:
        *paths: trace files, folders or globs of them (the ranks of one run), run folders or folders
            of them, or one ``.duckdb`` store.
        traces: read traces. Without them, only manifests and requests are there.
        cache: keep the ingested trace, so that it opens at once the next time.
        rules: a rules file for the classifier, before the built-in rules.
        ceilings: what devices were measured to do at most: a run folder of ``tracekit bench``, or
            its ``benchmarks.jsonl``. Without it, what the run folder of the trace or the cache
            holds about its devices.
        progress: called now and then, on another thread, while a trace is read.
        unsafe: let SQL reach files, the network and DuckDB's settings.
        expect_breakdown: a breakdown will be asked for: what is sooner done while the store is made
            is done then.

    Raises:
        TraceError: a path does not exist, or holds no readable trace.
        StoreError: a store cannot be opened or written.
        UsageError: the rules file is not valid, or nothing was measured in the ceilings.
    """
    given = None
    if ceilings is not None:
        from tracekit.analysis.ceilings import Sources as CeilingSources

        # What is wrong with it is said before a long reading, not after it.
        given = CeilingSources(Path(ceilings))
    trace = _open(
        paths,
        traces=traces,
        cache=cache,
        rules=rules,
        progress=progress,
        unsafe=unsafe,
        expect_breakdown=expect_breakdown,
    )
    trace._ceilings = given
    return trace


def _open(
    paths: Sequence[str | Path],
    *,
    traces: bool,
    cache: bool,
    rules: str | Path | None,
    progress: Callable[[Progress], None] | None,
    unsafe: bool,
    expect_breakdown: bool,
) -> Trace:
    with _named_paths():
        store = _given_store(paths)
    if store is not None:
        from tracekit.database import open_store

        if rules is not None:
            raise StoreError(
                f"{store}: a store has its classes already",
                hint="give the rules when the store is made: tracekit ingest TRACE --rules FILE",
            )
        from tracekit.analysis.store_catalogue import check_catalogue

        with contextlib.ExitStack() as on_error:
            connection = open_store(store, on_error, unsafe=unsafe, check=check_catalogue)
            return Trace(connection, store, on_error.pop_all())
    with _named_paths():
        sources = find_sources(paths, traces=traces)
    contents = _Contents(
        bool(sources.traces),
        tuple(map(str, sources.runs)),
        any(map(has_requests, sources.runs)),
        any(map(has_benchmarks, sources.runs)),
    )
    rules_path = None if rules is None else Path(rules)
    if rules_path is not None:
        from tracekit.analysis.recipe import check_rules

        # Before the cache is asked: it would answer for a file that is not there, without rules.
        check_rules(rules_path)
    wanted = BREAKDOWN if expect_breakdown else ()
    # Manifests alone are read sooner than a store of them would be written.
    is_kept = cache and (sources.traces or contents.has_requests) and _are_files(sources)
    open_it = _open_cached if is_kept else _open_temporary
    trace = open_it(sources, contents, rules_path, progress, wanted, unsafe=unsafe)
    trace._ceiling_folders = sources.runs
    return trace


def _open_temporary(
    sources: Sources,
    contents: _Contents,
    rules: Path | None,
    progress: Callable[[Progress], None] | None,
    wanted: Sequence[str],
    *,
    unsafe: bool,
) -> Trace:
    with contextlib.ExitStack() as on_error:
        reading = on_error.enter_context(_begin_reading(sources, progress))

        from tracekit import database

        resources = on_error.enter_context(contextlib.ExitStack())
        build = resources.enter_context(database.build_temporary())
        answers = _fill(build, sources, rules, progress, reading, wanted)
        if not unsafe:
            database.lock(build.connection)
        on_error.pop_all()
    return Trace(build.connection, None, resources, contents, answers)


def _open_cached(
    sources: Sources,
    contents: _Contents,
    rules: Path | None,
    progress: Callable[[Progress], None] | None,
    wanted: Sequence[str],
    *,
    unsafe: bool,
) -> Trace:
    from tracekit import database
    from tracekit.analysis.recipe import queries_digest

    cached = _cached_path(sources, queries_digest(rules))
    # A shared folder may hold what somebody else made.
    check = None
    if not database.is_private(cached.parent):
        from tracekit.analysis.store_catalogue import check_catalogue

        check = check_catalogue

    def open_it(resources: contextlib.ExitStack) -> duckdb.DuckDBPyConnection:
        return database.open_store(cached, resources, unsafe=unsafe, check=check)

    def make_it(wanted: Sequence[str] = ()) -> Mapping[str, Result]:
        with contextlib.suppress(OSError):
            cached.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (
            _begin_reading(sources, progress) as reading,
            database.build_store(cached, sources.files) as build,
        ):
            answers = _fill(build, sources, rules, progress, reading, wanted)
        database.forget_older(cached)
        return answers

    def make_again(resources: contextlib.ExitStack) -> duckdb.DuckDBPyConnection:
        _log.warning("%s: the cached store is damaged and is made again", sources.files[0])
        database.forget(cached)
        make_it()
        return open_it(resources)

    with contextlib.ExitStack() as resources:
        answers: Mapping[str, Result] = {}
        connection = None
        if cached.is_file():
            try:
                connection = open_it(resources)
                database.touch(cached)
            except StoreError:
                # The trace is there: no reason to fail.
                connection = make_again(resources)
        else:
            answers = make_it(wanted)
            connection = open_it(resources)
        return Trace(connection, cached, resources.pop_all(), contents, answers, make_again)


def _cached_path(sources: Sources, digest: str) -> Path:
    from tracekit.database import cached_store_path

    try:
        return cached_store_path(sources.files, digest)
    except OSError as error:
        name = error.filename or sources.files[0]
        raise TraceError(f"{name}: cannot be read: {error.strerror or error}") from error


def _are_files(sources: Sources) -> bool:
    """Whether every source can be read twice: a pipe cannot."""
    return all(file.is_file() for file in sources.files)


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
        progress: called now and then, on another thread, while a trace is read.

    Returns:
        The path of the store.

    Raises:
        TraceError: a path does not exist, or holds no readable trace.
        StoreError: the store exists, or cannot be written.
        UsageError: the rules file is not valid, or the name does not end in ``.duckdb``.
    """
    from tracekit import database

    if output.suffix != ".duckdb":
        raise UsageError(
            f"{output}: a store's name ends in .duckdb", hint=f"-o {output.with_suffix('.duckdb')}"
        )
    with _named_paths():
        if output.exists() and not force:
            raise StoreError(f"{output}: exists already", hint="--force replaces it")
        sources = find_sources(paths)
    with (
        _begin_reading(sources, progress) as reading,
        database.build_store(output, sources.files, replaces=force) as build,
    ):
        _fill(build, sources, rules, progress, reading)
    return output


@contextlib.contextmanager
def _named_paths() -> Iterator[None]:
    """Turn what the disk answers to a name that it cannot look up into one sentence."""
    try:
        yield
    except OSError as error:
        raise TraceError(f"{_cut(error.filename)}: {error.strerror or error}") from error


def _cut(name: object) -> str:
    text = str(name)
    return text if len(text) <= _MAX_NAME else text[:_MAX_NAME] + "…"


def find_sources(paths: Sequence[str | Path], *, traces: bool = True) -> Sources:
    """Return the traces and the run folders that are meant by files, folders and globs.

    Args:
        paths: trace files, run folders, folders of run folders, globs of any.
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
    if len(runs) > 1 and are_parts_of_one(runs):
        return Sources([trace for run in runs for trace in _traces_in(run)], runs)
    return Sources(found if len(runs) <= 1 else [], runs)


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
    unique = list(dict.fromkeys(file.resolve() for file in found))
    for file in unique:
        if file.suffix == ".duckdb":
            raise TraceError(
                f"{file}: a store cannot be mixed with traces", hint="open it by itself"
            )
    return unique


def _traces_in(folder: Path) -> list[Path]:
    """Return the traces that lie in a folder, in natural order."""
    inside = [
        file
        for file in folder.iterdir()
        if file.name.endswith(_TRACE_SUFFIXES)
        and file.name not in _NOT_TRACES
        and not file.name.startswith(".")
        and file.is_file()
    ]
    return sorted(inside, key=natural)


def _several(name: str, runs: Sequence[str]) -> UsageError:
    shown = [Path(run).name for run in runs[:_MAX_NAMED]]
    more = len(runs) - len(shown)
    return UsageError(
        f"{name} is about one run, and there are {len(runs)} here: {', '.join(shown)}"
        + (f" and {more} more" if more else ""),
        hint=f"choose one, for example {runs[0]}",
    )


def _given_store(paths: Sequence[str | Path]) -> Path | None:
    if len(paths) == 1 and Path(paths[0]).suffix == ".duckdb" and not Path(paths[0]).is_dir():
        return Path(paths[0])
    return None


def _begin_reading(
    sources: Sources, progress: Callable[[Progress], None] | None
) -> contextlib.AbstractContextManager[Reading | None]:
    """Begin to read the first trace: the store is made meanwhile, and DuckDB loaded."""
    from tracekit.ingest.reading import Reading

    if not sources.traces:
        return contextlib.nullcontext()
    return Reading(sources.traces[0], progress)


def _fill(
    build: Build,
    sources: Sources,
    rules: Path | None,
    progress: Callable[[Progress], None] | None,
    begun: Reading | None,
    wanted: Sequence[str] = (),
) -> dict[str, Result]:
    """Fill a store; return the results of those wanted analyses that were run by the way.

    The reading that has begun is that of the first trace.
    """
    from tracekit.analysis.recipe import queries_digest

    answers: dict[str, Result] = {}
    if sources.traces:
        answers = _fill_traces(build, sources, rules, progress, begun, wanted)
    else:
        _fill_runs(build, sources, progress)
    info = (SCHEMA_VERSION, __version__, queries_digest(rules))
    build.connection.execute(f"INSERT INTO store_info VALUES {rows([info])}")
    return answers


def _fill_traces(
    build: Build,
    sources: Sources,
    rules: Path | None,
    progress: Callable[[Progress], None] | None,
    begun: Reading | None,
    wanted: Sequence[str],
) -> dict[str, Result]:
    from tracekit.database import SMALL_SOURCE_BYTES, cursor_of, with_room
    from tracekit.ingest.load import forget_trace, load_trace
    from tracekit.ingest.reading import Reading, usual_text_bytes

    connection = build.connection
    text_bytes = sum(map(usual_text_bytes, sources.traces))
    # DuckDB takes a block on one thread while the next one is read on another: more threads would
    # only hold more memory.
    connection.execute("SET threads = 1")
    with ThreadPoolExecutor(1, thread_name_prefix="tracekit-prepare") as pool:
        # What depends on no trace is loaded and made while the first one is read.
        prepared = pool.submit(_prepare, cursor_of(connection), rules)
        if rules is not None:
            # What is wrong with the user's rules is said before a long reading, not after it.
            prepared.result()
        readings = [] if begun is None else [begun]
        for trace_id, source in enumerate(sources.traces):

            def load(source: Path = source, trace_id: int = trace_id) -> None:
                forget_trace(connection, trace_id)
                with readings.pop() if readings else Reading(source, progress) as reading:
                    load_trace(connection, reading, trace_id)

            with_room(connection, text_bytes, load)
        prepared.result()
    if text_bytes > SMALL_SOURCE_BYTES:
        connection.execute("RESET threads")
    if sources.runs:
        _fill_runs(build, sources, progress)

    from tracekit.analysis.catalog import load_catalog
    from tracekit.analysis.derive import derive
    from tracekit.analysis.session_tables import DEVICE_CEILING
    from tracekit.ingest.threads import THREAD, fill_threads

    catalog = load_catalog()
    # What else they look at besides the store is there once it is open.
    specs = [
        spec for name in wanted if DEVICE_CEILING not in (spec := catalog.analysis(name)).requires
    ]
    return derive(connection, text_bytes, specs, also={THREAD: fill_threads})


def _prepare(connection: duckdb.DuckDBPyConnection, rules: Path | None) -> None:
    from tracekit.analysis.derive import prepare

    prepare(connection, rules)


def _fill_runs(build: Build, sources: Sources, progress: Callable[[Progress], None] | None) -> None:
    from tracekit.database import create_run_tables
    from tracekit.ingest.runs import load_runs

    if not sources.traces:
        create_run_tables(build.connection)
    run_ids = load_runs(
        build.connection, sources.runs, build.folder, progress, needs_one=not sources.traces
    )
    if any(map(has_benchmarks, sources.runs)):
        from tracekit.analysis.device_peaks import fill_named_peaks

        fill_named_peaks(build.connection)
    for run, run_id in zip(sources.runs, run_ids, strict=True):
        inside = [number for number, trace in enumerate(sources.traces) if trace.parent == run]
        if inside:
            build.connection.execute(
                f"UPDATE trace SET run_id = {quote(run_id)} "
                f"WHERE trace_id IN ({', '.join(map(str, inside))})"
            )
