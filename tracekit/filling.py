"""Filling a store with traces and runs, and with what is derived from them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit import __version__
from tracekit.ingest.progress import Progress
from tracekit.ingest.run_folders import Sources, has_benchmarks
from tracekit.schema import SCHEMA_VERSION
from tracekit.sql_text import quote, rows
from tracekit.storage import Place

if TYPE_CHECKING:
    import duckdb

    from tracekit.analysis.result import Result
    from tracekit.database import Build
    from tracekit.ingest.reading import Reading


def begin_reading(
    sources: Sources, progress: Callable[[Progress], None] | None
) -> contextlib.AbstractContextManager[Reading | None]:
    """Begin to read the first trace: the store is made meanwhile, and DuckDB loaded."""
    from tracekit.ingest.reading import Reading

    if not sources.traces:
        return contextlib.nullcontext()
    return Reading(sources.traces[0], progress)


def fill(
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

            def load(source: Place = source, trace_id: int = trace_id) -> None:
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
