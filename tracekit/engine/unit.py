"""Unit of work: reads a batch of traces, runs analyses, and returns a small result.

All engines run this code. The traces of a batch share one in-memory database, because planning
statements costs as much as processing a small rank.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.library import library_file, reads, start_session
from tracekit.analysis.names.device_peaks import fill_named_peaks
from tracekit.analysis.names.rules import create_rule_tables
from tracekit.analysis.params import bind
from tracekit.analysis.relations import Relations, is_relation, with_values
from tracekit.database.connections import SCRATCH, SESSION, create_tables
from tracekit.dataset.layout import BY_TIME, LARGE_TABLES, SMALL_TABLES, WRITTEN_AS, File, put_file
from tracekit.dataset.shards import Description, key_of, write_shard
from tracekit.engine.work import Batch, BatchResult, Failure, JobSpec, Shard, TraceFile
from tracekit.errors import TracekitError
from tracekit.ingest.load import THREAD, fill_threads, forget_trace, load_trace
from tracekit.ingest.reading import Reading
from tracekit.ingest.runs import load_runs
from tracekit.sql_text import quote, rows
from tracekit.storage import place_of
from tracekit.storage.temp_dirs import temporary_folder

_OF_THE_PROCESS_BYTES = 144 << 20
"""Memory of a unit in addition to DuckDB's buffers: Python, libraries, and blocks of text."""

_MIN_BUFFER_BYTES = 112 << 20

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

_BAD_DATA = (TracekitError, OSError, duckdb.Error, MemoryError, UnicodeError)
"""Errors of a batch that do not affect other batches."""


class Worker:
    """Runs the units of one job sequentially on one thread. It is a context manager."""

    def __init__(self, job: JobSpec, folder: Path | None = None) -> None:
        self._job = job
        self._given_folder = folder
        self._resources = contextlib.ExitStack()

    def __enter__(self) -> Worker:
        self._folder = self._given_folder or temporary_folder()
        if self._given_folder is None:
            self._resources.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._rules: Path | None = None
        if self._job.rules_text is not None:
            self._rules = self._folder / "rules.toml"
            self._rules.write_text(self._job.rules_text, encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def do(self, batch: Batch) -> BatchResult:
        """Run the unit of one batch.

        Faults of a trace or the disk become failures in the result. Exceptions are bugs in
        tracekit.
        """
        begin = time.monotonic()
        shards, failures = self._do(batch)
        return BatchResult(
            batch,
            tuple(shards),
            tuple(failures),
            time.monotonic() - begin,
        )

    def _do(self, batch: Batch) -> tuple[list[Shard], list[Failure]]:
        failures: list[Failure] = []
        later: Sequence[TraceFile] = ()
        shards: list[Shard] = []
        try:
            with self._new_database() as connection:
                loaded, later, failures = self._load(connection, batch.traces)
                if loaded:
                    shards.append(self._finish(connection, loaded))
        except _BAD_DATA as error:
            if len(batch.traces) == 1:
                return [], [self._failure(batch.traces[0], error)]
            # Retry each trace alone: one trace may be faulty, or the batch too large.
            failures, later, shards = [], batch.traces, []
        for trace in later:
            more_shards, more_failures = self._do(Batch(batch.number, (trace,)))
            shards += more_shards
            failures += more_failures
        return shards, failures

    @contextlib.contextmanager
    def _new_database(self) -> Iterator[duckdb.DuckDBPyConnection]:
        buffer_bytes = max(self._job.memory_bytes - _OF_THE_PROCESS_BYTES, _MIN_BUFFER_BYTES)
        with duckdb.connect() as connection:
            # Use one thread, because other workers use the other processors.
            connection.execute(
                f"SET threads = 1; SET memory_limit = '{buffer_bytes >> 10}KiB'; "
                f"SET temp_directory = {quote(str(self._folder / 'spill'))}; "
                f"ATTACH ':memory:' AS {SCRATCH}"
            )
            start_session(connection)
            create_tables(connection, library_file())
            if self._rules is not None:
                create_rule_tables(connection, self._rules)
            yield connection

    def _load(
        self, connection: duckdb.DuckDBPyConnection, traces: Sequence[TraceFile]
    ) -> tuple[list[TraceFile], list[TraceFile], list[Failure]]:
        """Read traces; return the loaded traces, those with a duplicate rank, and failures.

        Rows of analyses are identified by rank, so a shard may have only one trace per rank.
        """
        loaded: list[TraceFile] = []
        later: list[TraceFile] = []
        failures: list[Failure] = []
        used_numbers: set[int | None] = set()
        for trace in traces:
            try:
                with Reading(place_of(trace.location)) as reading:
                    number = load_trace(connection, reading, trace.trace_id)
            except duckdb.Error:
                raise
            except _BAD_DATA as error:
                forget_trace(connection, trace.trace_id)
                failures.append(self._failure(trace, error))
                continue
            if number in used_numbers:
                forget_trace(connection, trace.trace_id)
                later.append(trace)
            else:
                used_numbers.add(number)
                loaded.append(trace)
        return loaded, later, failures

    def _finish(self, connection: duckdb.DuckDBPyConnection, traces: list[TraceFile]) -> Shard:
        self._load_runs(connection, traces)
        text_bytes = sum(trace.text_bytes for trace in traces)
        relations = Relations(connection, text_bytes, {THREAD: fill_threads}, is_bounded=True)
        relations.make_store()
        small = {f"tables/{name}": self._small(connection, name) for name in SMALL_TABLES}
        relations.make(filter(is_relation, self._job.analyses))
        for name in self._job.analyses:
            small[f"analyses/{name}"] = self._rows_of(connection, relations, name)
        counts = {
            name: (connection.execute(f"SELECT count(trace_id) FROM {name}").fetchone() or (0,))[0]
            for name in LARGE_TABLES
        }
        entries = tuple(trace.entry for trace in traces)
        key = key_of(self._job.recipe, entries)
        files: dict[str, File] = {}
        for name, count in counts.items():
            if count:
                self._write(connection, name)
                folder = f"tables/{name}"
                files[name] = put_file(self._job.dataset, folder, key, self._file, count)
        description = Description(self._job.recipe, entries, files)
        write_shard(self._job.dataset, key, description, small)
        return Shard(tuple(traces), small, files)

    def _load_runs(
        self, connection: duckdb.DuckDBPyConnection, traces: Sequence[TraceFile]
    ) -> None:
        if not self._job.runs:
            return
        load_runs(connection, self._job.runs, self._folder)
        fill_named_peaks(connection)
        run_ids = [(trace.trace_id, trace.run_id) for trace in traces if trace.run_id is not None]
        if run_ids:
            connection.execute(
                f"UPDATE trace SET run_id = given.run_id FROM (VALUES {rows(run_ids)}) "
                "AS given (trace_id, run_id) WHERE trace.trace_id = given.trace_id"
            )

    def _failure(self, trace: TraceFile, error: BaseException) -> Failure:
        text = (str(error).splitlines() or [type(error).__name__])[0]
        if isinstance(error, OSError | duckdb.IOException) and (
            getattr(error, "errno", None) in _NO_ROOM or os.strerror(errno.ENOSPC) in text
        ):
            # Outside the folder of the unit, only files of the dataset are written.
            place, shown = str(self._folder), self._job.dataset.shown
            if str(getattr(error, "filename", "")).startswith(shown):
                place = shown
            reason = f"{place}: the disk is full: {os.strerror(errno.ENOSPC)}"
            hint = "free space and run the command again: it continues from the completed ranks"
            return Failure(trace, reason, hint, is_disk_full=True)
        if isinstance(error, TracekitError):
            return Failure(trace, error.message, error.hint)
        return Failure(trace, f"{trace.location.shown}: {text}")

    @property
    def _file(self) -> Path:
        return self._folder / "table.parquet"

    def _write(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        # Unreadable lines of request files belong to the run, not to a trace.
        some = " WHERE trace_id IS NOT NULL" if table == "rejected" else ""
        order = f" ORDER BY {BY_TIME[table]}" if table in BY_TIME else ""
        connection.execute(
            f"COPY (FROM {table}{some}{order}) TO {quote(str(self._file))} ({WRITTEN_AS})"
        )

    def _small(self, connection: duckdb.DuckDBPyConnection, table: str) -> bytes:
        self._write(connection, table)
        return self._file.read_bytes()

    def _rows_of(
        self, connection: duckdb.DuckDBPyConnection, relations: Relations, name: str
    ) -> bytes:
        place = f"{SESSION}.main.{name}"
        if not is_relation(name):
            # The name refers to an ingested table here, so run the SQL of the analysis.
            spec = load_catalog().analysis(name)
            relations.make(reads(spec.name))
            place = f"{SESSION}.main.answer"
            statement = with_values(spec, bind(spec, {}))
            connection.execute(f"CREATE OR REPLACE TABLE {place} AS\n{statement}")
        connection.execute(
            f"COPY (SELECT trace.trace_id, rows.* FROM {place} AS rows LEFT JOIN trace "
            "ON rows.rank IS NOT DISTINCT FROM trace.rank ORDER BY rows.rowid) "
            f"TO {quote(str(self._file))} ({WRITTEN_AS})"
        )
        return self._file.read_bytes()
