"""Opens traces, runs, and stores, and creates stores from traces."""

from __future__ import annotations

import contextlib
import gc
import logging
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tracekit import __version__
from tracekit.analysis.breakdown import breakdown_of
from tracekit.analysis.scopes import Contents
from tracekit.errors import StoreError, TraceError, UsageError, given_stores
from tracekit.ingest.sources import (
    BENCHMARKS_NAME,
    Sources,
    find_sources,
    has_benchmarks,
    has_requests,
    named_paths,
    usual_text_bytes,
    with_captures,
)
from tracekit.ingest.trace_readers import Progress
from tracekit.schema import SCHEMA_VERSION
from tracekit.sql_text import quote, rows
from tracekit.storage import Place, place_of
from tracekit.trace import OpenStore, Trace

if TYPE_CHECKING:
    import duckdb

    from tracekit.analysis.relations import Answer, Relations
    from tracekit.database.building import Build
    from tracekit.engine.choice import EngineChoice
    from tracekit.engine.dataset_writer import RunProgress
    from tracekit.ingest.reading import Reading
    from tracekit.storage import Location

_log = logging.getLogger("tracekit")


def tune_for_traces() -> None:
    """Tune the interpreter for reading traces.

    Only commands that own the process call this: a measured workload must keep its own settings.
    """
    # Collect garbage rarely, because reading creates millions of objects, but few cycles.
    gc.set_threshold(200_000, 50, 50)
    # The thread that reads ahead needs the GIL often, but only between long calls into C code.
    sys.setswitchinterval(0.0001)


def open(
    *paths: str | Place,
    traces: bool = True,
    cache: bool = True,
    rules: str | Path | None = None,
    peak_rates: str | Path | None = None,
    capture: str | Place | Sequence[str | Place] = (),
    queries: str | Path | Sequence[str | Path] = (),
    unsafe: bool = False,
) -> Trace:
    """Open a trace, the traces of a run, or a store.

    A run folder also contributes its manifest, requests, and microbenchmarks, even if only one of
    its traces is given. Several run folders contribute only these, for analyses of scope ``runs``.

    Args:
        *paths: trace files, or folders or globs of trace files (the ranks of one run); run folders,
            or folders of run folders; or one ``.duckdb`` store. Each may be a URL (``s3://``,
            ``gs://``, ``az://``, ``https://``). Traces are streamed; a remote store is copied to
            the cache.
        traces: whether to read the traces. False reads only manifests, requests, and
            microbenchmarks.
        cache: whether to cache the ingested trace, so that it opens faster the next time.
        rules: a rules file, which the classifier applies before the built-in rules.
        peak_rates: measured peak rates of devices: a run folder of ``tracekit bench``, or its
            ``benchmarks.jsonl``. The default is the run folder of the trace.
        capture: traces of the capture of CUDA graphs that this trace replays. They provide the op,
        shapes, and module of replayed kernels.
        queries: folders with SQL files of your own, in addition to those in the configuration. The
            default is the environment variable TRACEKIT_QUERIES.
        unsafe: whether SQL may access files, the network, and DuckDB's settings.

    Returns:
        The opened trace. Close it, or use it in a ``with`` statement.

    Raises:
        TraceError: a path does not exist, or contains no readable trace.
        StoreError: a store cannot be opened or written.
        UsageError: the rules file is invalid, ``peak_rates`` has no usable measurement, or a
            folder of queries does not exist.
        QueryError: an SQL file in a folder of queries cannot be used.
    """
    return open_request(
        OpenRequest(
            paths,
            cache=cache,
            rules=None if rules is None else Path(rules),
            peak_rates=None if peak_rates is None else Path(peak_rates),
            capture=capture,
            queries=[queries] if isinstance(queries, str | Path) else queries,
            is_unsafe=unsafe,
            reads_traces=traces,
        )
    )


class OpenRequest(Struct, frozen=True):
    """Paths to open, with options. :func:`open` describes the other attributes.

    Attributes:
        progress: called periodically, on another thread, while a trace is read.
        engine: engine for reading the traces of many ranks. None uses local processes.
        reads_traces: whether to read traces in addition to manifests, requests, and
            microbenchmarks.
        ranks_progress: called whenever some of many ranks have been read.
        for_breakdown: whether a new store in the cache includes the rows of a breakdown.
    """

    paths: Sequence[str | Place]
    cache: bool = True
    rules: Path | None = None
    peak_rates: Path | None = None
    capture: str | Place | Sequence[str | Place] = ()
    queries: Sequence[str | Path] = ()
    progress: Callable[[Progress], None] | None = None
    is_unsafe: bool = False
    engine: EngineChoice | None = None
    reads_traces: bool = True
    ranks_progress: Callable[[RunProgress], None] | None = None
    for_breakdown: bool = False


def open_request(request: OpenRequest) -> Trace:
    """Open a trace, the traces of a run, or a store.

    Raises:
        The errors of :func:`open`.
    """
    from tracekit.analysis.query_folders import given_folders, load_library

    folders = given_folders(request.queries)
    if folders:
        load_library(folders)
    # Report errors in this file before reading the trace, which can be slow.
    peak_rates = () if request.peak_rates is None else points_of(request.peak_rates)
    is_cached = request.cache and _is_cache_safe()
    with named_paths():
        given_store = _given_store(request.paths)
    if given_store is not None:
        return _open_given_store(given_store, request, peak_rates, folders, is_cached=is_cached)
    dataset = given_dataset(request.paths)
    if dataset is not None:
        _reject_ingest_options(f"{dataset.shown}: a dataset", request)
        return _open_dataset(dataset, peak_rates, folders, is_unsafe=request.is_unsafe)
    with named_paths():
        sources = with_captures(
            find_sources(request.paths, traces=request.reads_traces), request.capture
        )
    contents = Contents(
        bool(sources.traces),
        tuple(map(str, sources.runs)),
        any(map(has_requests, sources.runs)),
        any(map(has_benchmarks, sources.runs)),
        tuple(map(str, sources.traces)),
    )
    if request.rules is not None:
        from tracekit.analysis.names.rules import check_rules

        # Check the file first: a cached store would hide that it is missing.
        check_rules(request.rules)
    # If there are only manifests, reading them is faster than writing them to a store.
    is_cached = is_cached and bool(sources.traces or contents.has_requests) and _are_files(sources)
    resources = contextlib.ExitStack()
    with contextlib.ExitStack() as on_error:
        on_error.push(resources)
        store = _open_ranks(request, sources, contents, resources, is_cached=is_cached)
        if store is None:
            make = _open_cached if is_cached else _open_temporary
            store = make(request, sources, contents, resources)
            if len(sources.traces) > 1:
                _warn_of_other_times(store.connection)
        on_error.pop_all()
    return Trace(store, resources, contents, peak_rates, folders)


def points_of(run: Path) -> list[tuple[object, ...]]:
    """Return the measurements of a run of ``tracekit bench``, as rows of ``peak_rate_point``.

    Raises:
        UsageError: no measurement is a peak rate of a device.
    """
    import duckdb

    from tracekit.analysis.library import library_file, start_session
    from tracekit.analysis.names.device_peaks import fill_named_peaks
    from tracekit.analysis.relations import ensure
    from tracekit.database.connections import create_tables
    from tracekit.ingest.runs import load_runs
    from tracekit.storage.temp_dirs import temporary_folder

    folder = run.parent if run.name == BENCHMARKS_NAME else run
    if not folder.is_dir() or not has_benchmarks(folder):
        raise UsageError(
            f"{run}: no {BENCHMARKS_NAME} in this folder",
            hint="pass a run folder of tracekit bench",
        )
    work_folder = temporary_folder()
    try:
        with duckdb.connect() as connection:
            start_session(connection, is_complete=True)
            create_tables(connection, library_file())
            load_runs(connection, [folder], work_folder)
            fill_named_peaks(connection)
            ensure(connection, ["peak_rate_point", "bench_peak_rates"])
            [(rejected_count, count)] = connection.execute(
                "SELECT (SELECT rejected_count FROM run), count(*) "
                "FROM bench_peak_rates('peak_rate_point')"
            ).fetchall()
            points = connection.execute("SELECT * REPLACE ('given' AS origin) FROM peak_rate_point")
            rows = points.fetchall()
    finally:
        shutil.rmtree(work_folder, ignore_errors=True)
    if rejected_count:
        _log.warning(
            "%s: skipped %s without a benchmark point",
            run,
            "1 line" if rejected_count == 1 else f"{rejected_count} lines",
        )
    if not count:
        raise UsageError(
            f"{run}: no benchmark point is a peak rate",
            hint="peak rates need successful GEMM, copy, or collective benchmarks",
        )
    return rows


def _is_cache_safe() -> bool:
    from tracekit.database.cache import cache_dir, is_writable_by_all

    if not is_writable_by_all(folder := cache_dir()):
        return True
    _log.warning(
        (
            "%s: every user can write to this cache folder, so it is not used (run chmod "
            "700, or set TRACEKIT_CACHE_DIR)"
        ),
        folder,
    )
    return False


def _open_given_store(
    given: Place,
    request: OpenRequest,
    peak_rates: Sequence[Sequence[object]],
    query_folders: Sequence[Path],
    *,
    is_cached: bool,
) -> Trace:
    from tracekit.analysis.library import library_file
    from tracekit.analysis.store_catalogue import check_catalogue, check_rows
    from tracekit.database.connections import session_of
    from tracekit.database.opening import open_store

    _reject_ingest_options(f"{given}: a store", request)
    limit_s = 0.0

    def check(opened: duckdb.DuckDBPyConnection, path: Path) -> None:
        """Check the store. At this point, any DuckDB error means that it is damaged."""
        nonlocal limit_s
        check_catalogue(opened, path)
        if opened.execute("SELECT 1 FROM store.main.trace LIMIT 1").fetchone():
            limit_s = check_rows(opened, str(path), path.stat().st_size, "store.main.")
        row = opened.execute("SELECT made_by FROM store.main.store_info").fetchone()
        _warn_of_other_version(str(given), row[0] if row else "")

    with contextlib.ExitStack() as on_error:
        path = _local_store(given, on_error, request.progress, is_cached=is_cached)
        connection = open_store(
            path, on_error, library=library_file(), unsafe=request.is_unsafe, check=check
        )
        session_of(connection).limit_s = limit_s or None
        given_stores.append(str(given))
        store = OpenStore(connection, path)
        return Trace(store, on_error.pop_all(), None, peak_rates, query_folders)


def _open_ranks(
    request: OpenRequest,
    sources: Sources,
    contents: Contents,
    resources: contextlib.ExitStack,
    *,
    is_cached: bool,
) -> OpenStore | None:
    """Open the traces of many ranks; return None for few ranks, or if they are not files."""
    if len(sources.traces) < 2 and request.engine is None:
        return None
    from tracekit.engine.choice import EngineChoice, are_many

    choice = request.engine or EngineChoice()
    if not (are_many(sources, choice) and _are_files(sources)):
        return None
    from tracekit.engine.many_ranks import DistributedIngest

    many = DistributedIngest(sources, contents, choice, request.rules, request.ranks_progress)
    return many.open(resources, is_cached=is_cached, is_unsafe=request.is_unsafe)


def _reject_ingest_options(what: str, request: OpenRequest) -> None:
    for option, given, has in (
        ("rules", request.rules, "was created with its own kernel classes"),
        ("capture", request.capture, "was created with its own kernel ops"),
    ):
        if given:
            raise StoreError(
                f"{what} {has}",
                hint=(f"pass it when you create the store: tracekit ingest TRACE --{option} FILE"),
            )


def _warn_of_other_version(shown: str, made_by: str) -> None:
    """Warn if another version of tracekit created a store, because its rows may differ."""
    from tracekit.analysis.catalog import make_digest

    if made_by != make_digest():
        _log.warning(
            (
                "%s: this store is from another version of tracekit, and its rows may differ "
                "(create it again: tracekit ingest TRACE -o NAME --force)"
            ),
            shown,
        )


_OTHER_TIMES = """
WITH timed AS (
    SELECT
        trace_id, rank, base_time_ns + first_ts_ns AS start_ns,
        max(base_time_ns + last_end_ns) OVER (
            ORDER BY base_time_ns + first_ts_ns, trace_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS end_before_ns
    FROM trace
)

SELECT count(*) > 1 AND count(rank) = 0 AND bool_and(coalesce(end_before_ns <= start_ns, TRUE))
FROM timed
"""


def _warn_of_other_times(connection: duckdb.DuckDBPyConnection) -> None:
    """Warn about traces without overlapping times, because they may be from different runs."""
    row = connection.execute(_OTHER_TIMES).fetchone()
    if row and row[0]:
        _log.warning(
            "the traces have no ranks and were recorded one after the other; they are shown as one "
            "run, but may be different runs (to compare two: tracekit compare OLD NEW)"
        )


def _open_dataset(
    dataset: Location,
    peak_rates: Sequence[Sequence[object]],
    query_folders: Sequence[Path],
    *,
    is_unsafe: bool,
) -> Trace:
    from tracekit.analysis.store_catalogue import check_rows
    from tracekit.database.connections import session_of
    from tracekit.dataset.opening import open_dataset

    with contextlib.ExitStack() as on_error:
        result = open_dataset(dataset, on_error, unsafe=is_unsafe)
        # Checking a remote dataset would require reading it completely.
        if dataset.local_path is not None and result.manifest.traces:
            size_bytes = sum(one.size_bytes for one in result.manifest.files)
            session_of(result.connection).limit_s = check_rows(
                result.connection, dataset.shown, size_bytes
            )
        given_stores.append(dataset.shown)
        _warn_of_other_version(dataset.shown, result.manifest.made_by)
        missing = tuple((one.location, one.reason) for one in result.manifest.missing)
        store = OpenStore(result.connection, dataset.local_path, missing=missing)
        return Trace(store, on_error.pop_all(), None, peak_rates, query_folders)


def _open_temporary(
    request: OpenRequest, sources: Sources, contents: Contents, resources: contextlib.ExitStack
) -> OpenStore:
    del contents
    with begin_reading(sources, request.progress) as reading:
        from tracekit.analysis.library import library_file
        from tracekit.database import building, connections

        build = resources.enter_context(building.build_temporary(library_file()))
        relations = _filled(build, sources, request.rules, request.progress, reading)

    def derive(needed: Iterable[str] | None) -> None:
        if relations is not None:
            with connections.explained(build.folder):
                if needed is None:
                    relations.make_store()
                else:
                    relations.make(needed)
        # Lock the connection only now, because creating relations reads files and sets limits.
        if needed is None and not request.is_unsafe:
            connections.lock(build.connection)

    def answer(names: Iterable[str]) -> dict[str, Answer]:
        assert relations is not None
        with connections.explained(build.folder):
            return relations.answer(names)

    if relations is None:
        connections.set_query_limit(build.connection)
        derive(None)
        return OpenStore(build.connection)
    return OpenStore(build.connection, derive=derive, answer=answer)


def _open_cached(
    request: OpenRequest, sources: Sources, contents: Contents, resources: contextlib.ExitStack
) -> OpenStore:
    from tracekit.analysis.catalog import cache_digest
    from tracekit.analysis.library import library_file
    from tracekit.database import building, cache, opening

    cached = _cached_path(sources, cache_digest(request.rules))
    with contextlib.suppress(OSError):
        cached.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Another user may have written a store into a shared folder.
    check = None
    if not cache.is_private(cached.parent):
        from tracekit.analysis.store_catalogue import check_catalogue

        check = check_catalogue

    def open_it(resources: contextlib.ExitStack) -> duckdb.DuckDBPyConnection:
        return opening.open_store(
            cached, resources, library=library_file(), unsafe=request.is_unsafe, check=check
        )

    def make_it() -> None:
        with (
            begin_reading(sources, request.progress) as reading,
            building.build_store(cached, sources.files, library=library_file()) as build,
        ):
            relations = _filled(build, sources, request.rules, request.progress, reading)
            if relations is not None:
                count = len(sources.traces)
                # check_catalogue accepts only the tables of a store.
                names = [] if check else _of_breakdown(contents, count, request)
                relations.make_store(names)
                if names:
                    relations.make_store(_estimates(build.connection))
        cache.forget_older(cached)

    def make_again(resources: contextlib.ExitStack) -> duckdb.DuckDBPyConnection:
        _log.warning("%s: the cached store is damaged; creating it again", sources.files[0])
        cache.forget(cached)
        make_it()
        return open_it(resources)

    if cached.is_file():
        cache.touch(cached)
        try:
            connection = open_it(resources)
        except StoreError:
            # The trace still exists, so create the store again.
            connection = make_again(resources)
    else:
        make_it()
        connection = open_it(resources)
    return OpenStore(connection, cached, make_again)


def _of_breakdown(contents: Contents, trace_count: int, request: OpenRequest) -> list[str]:
    """Return the analyses of a breakdown whose rows a cached store may include.

    Analyses that depend on peak rates of devices are excluded, because the rates may change.
    """
    from tracekit.analysis.names.device_peaks import DEVICE_PEAK, DEVICE_PEAK_RATE
    from tracekit.analysis.relations import depends_on, is_relation

    names = breakdown_of(contents, trace_count) if request.for_breakdown else []
    measured = (DEVICE_PEAK_RATE, DEVICE_PEAK)
    return [name for name in names if is_relation(name) and not depends_on(name, measured)]


def _estimates(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the analyses of the unprofiled step that a breakdown also shows."""
    from tracekit.analysis.breakdown import ESTIMATE, of_steps
    from tracekit.analysis.run import run_sql

    results = {name: run_sql(connection, f"FROM {name}") for name in ("run_idle", "trace")}
    return [name for name in of_steps(results) if name in ESTIMATE]


def _cached_path(sources: Sources, digest: str) -> Path:
    from tracekit.database.cache import cached_store_path

    try:
        return cached_store_path(sources.files, digest)
    except OSError as error:
        name = error.filename or sources.files[0]
        raise TraceError(f"{name}: cannot be read: {error.strerror or error}") from error


def _are_files(sources: Sources) -> bool:
    """Return whether every source is a file that can be identified and read again (not a pipe)."""
    return all(
        file.is_file() if isinstance(file, Path) else file.identity() is not None
        for file in sources.files
    )


def ingest(
    paths: Sequence[str | Place],
    output: Path,
    *,
    force: bool = False,
    rules: Path | None = None,
    capture: str | Place | Sequence[str | Place] = (),
    progress: Callable[[Progress], None] | None = None,
) -> Path:
    """Create a store, which is a single file, from traces. For many ranks, use a dataset.

    Args:
        paths: trace files, folders, globs, or URLs of the ranks of one run.
        output: path of the store.
        force: whether to replace an existing file.
        rules: a rules file, which the classifier applies before the built-in rules.
        capture: traces of the capture of CUDA graphs that these traces replay.
        progress: called periodically, on another thread, while a trace is read.

    Returns:
        The path of the store.

    Raises:
        TraceError: a path does not exist, or contains no readable trace.
        StoreError: the store exists, or cannot be written.
        UsageError: the rules file is invalid, or the name does not end in ``.duckdb``.
    """
    from tracekit.analysis.library import library_file
    from tracekit.database import building

    if output.suffix != ".duckdb":
        raise UsageError(
            f"{output}: the name of a store must end in .duckdb",
            hint=f"-o {output.with_suffix('.duckdb')}",
        )
    with named_paths():
        if output.exists() and not force:
            raise StoreError(f"{output}: already exists", hint="use --force to replace it")
        sources = with_captures(find_sources(paths), capture)
    with (
        begin_reading(sources, progress) as reading,
        building.build_store(
            output, sources.files, library=library_file(), replaces=force
        ) as build,
    ):
        relations = _filled(build, sources, rules, progress, reading)
        if relations is not None:
            relations.make_store()
    return output


def given_dataset(paths: Sequence[str | Place]) -> Location | None:
    """Return the dataset if the only path is a folder whose name ends in ``.tracekit``."""
    from tracekit.storage import Location

    if len(paths) != 1 or not str(paths[0]).rstrip("/").endswith(".tracekit"):
        return None
    dataset = Location.of(paths[0])
    path = dataset.local_path
    return None if path is not None and not path.is_dir() else dataset


def _given_store(paths: Sequence[str | Place]) -> Place | None:
    if len(paths) != 1:
        return None
    path = place_of(paths[0])
    return path if path.suffix == ".duckdb" and not path.is_dir() else None


def _local_store(
    store: Place,
    resources: contextlib.ExitStack,
    progress: Callable[[Progress], None] | None,
    *,
    is_cached: bool,
) -> Path:
    """Return a store as a local file. A remote store is downloaded."""
    if isinstance(store, Path):
        return store
    from tracekit.database.cache import fetch_store

    def on_bytes(done_bytes: int, all_bytes: int) -> None:
        if progress is not None:
            progress(Progress(str(store), done_bytes, all_bytes, 0))

    return fetch_store(store, resources, is_cached=is_cached, on_bytes=on_bytes)


def begin_reading(
    sources: Sources, progress: Callable[[Progress], None] | None
) -> contextlib.AbstractContextManager[Reading | None]:
    """Start reading the first trace while DuckDB is loaded and the store is created."""
    from tracekit.ingest.reading import Reading

    if not sources.traces:
        return contextlib.nullcontext()
    return Reading(sources.traces[0], progress)


def _filled(
    build: Build,
    sources: Sources,
    rules: Path | None,
    progress: Callable[[Progress], None] | None,
    begun: Reading | None,
) -> Relations | None:
    """Fill the input tables of a store. `begun` is the running reader of the first trace, if any.

    Returns:
        The object that creates the other relations, or None if there are no traces.
    """
    from tracekit.analysis.catalog import make_digest
    from tracekit.database.connections import session_of

    relations = None
    if sources.traces:
        relations = _fill_traces(build, sources, rules, progress, begun)
    else:
        _fill_runs(build, sources, progress)
        session_of(build.connection).is_complete = True
    info = (SCHEMA_VERSION, __version__, make_digest())
    build.connection.execute(f"INSERT INTO store_info VALUES {rows([info])}")
    return relations


def _fill_traces(
    build: Build,
    sources: Sources,
    rules: Path | None,
    progress: Callable[[Progress], None] | None,
    begun: Reading | None,
) -> Relations:
    from tracekit.analysis.names.rules import create_rule_tables
    from tracekit.database.connections import SMALL_SOURCE_BYTES, with_memory_limit
    from tracekit.ingest.load import forget_trace, load_trace
    from tracekit.ingest.reading import Reading

    connection = build.connection
    text_bytes = sum(map(usual_text_bytes, sources.traces))
    # One thread inserts a block while another reads the next. More threads would only use more
    # memory.
    connection.execute("SET threads = 1")
    if rules is not None:
        create_rule_tables(connection, rules)
    readings = [] if begun is None else [begun]
    tried: set[int] = set()
    for trace_id, source in enumerate(sources.traces):

        def load(source: Place = source, trace_id: int = trace_id) -> None:
            if trace_id in tried:
                forget_trace(connection, trace_id)
            tried.add(trace_id)
            with readings.pop() if readings else Reading(source, progress) as reading:
                load_trace(connection, reading, trace_id)

        with_memory_limit(connection, text_bytes, load)
    if text_bytes > SMALL_SOURCE_BYTES:
        connection.execute("RESET threads")
    if sources.runs:
        _fill_runs(build, sources, progress)
    for file in sources.counters:
        from tracekit.ingest.formats.counter_files import load_counters

        load_counters(connection, file, build.folder, None)
    if sources.captures:
        from tracekit.analysis.plausibility import judge_records

        # Check records before loading captures, which come from another recording.
        judge_records(connection)
    for number, file in enumerate(sources.captures):
        from tracekit.ingest.formats.capture import load_capture

        with_memory_limit(
            connection,
            usual_text_bytes(file),
            partial(load_capture, connection, file, number, len(sources.traces)),
        )
    for file in sources.execution_traces:
        from tracekit.ingest.formats.execution_trace import join_execution_trace

        join_execution_trace(connection, file)
    for file in sources.annotations:
        from tracekit.ingest.formats.kernel_annotations import join_annotations

        join_annotations(connection, file)
    from tracekit.ingest.formats.merged_ranks import split_ranks
    from tracekit.ingest.formats.xprof_json import name_xprof_events

    split_ranks(connection)
    name_xprof_events(connection)

    from tracekit.analysis.relations import Relations
    from tracekit.ingest.load import THREAD, fill_threads

    return Relations(connection, text_bytes, {THREAD: fill_threads})


def _fill_runs(build: Build, sources: Sources, progress: Callable[[Progress], None] | None) -> None:
    from tracekit.ingest.runs import load_runs

    run_ids = load_runs(
        build.connection, sources.runs, build.folder, progress, needs_one=not sources.traces
    )
    if any(map(has_benchmarks, sources.runs)):
        from tracekit.analysis.names.device_peaks import fill_named_peaks

        fill_named_peaks(build.connection)
    for run, run_id in zip(sources.runs, run_ids, strict=True):
        inside = [number for number, trace in enumerate(sources.traces) if trace.parent == run]
        if inside:
            build.connection.execute(
                f"UPDATE trace SET run_id = {quote(run_id)} "
                f"WHERE trace_id IN ({', '.join(map(str, inside))})"
            )
