"""Combines each small table and each analysis of all shards into one file.

Shards provide tables as small Parquet files, in any order. Once all shards are complete, rows are
sorted, so the result does not depend on how traces were divided into shards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.dataset.layout import SMALL_TABLES, WITHOUT_TRACE, WRITTEN_AS
from tracekit.sql_text import quote, rows
from tracekit.storage import Place

if TYPE_CHECKING:
    import duckdb

MARKER_NUMBER = "marker_number"
"""Table that maps each trace and marker number in launch_context to a row of range_marker."""

_ACROSS = ("duplicate_ranks", "missing_ranks")
"""Health metrics that compare a trace with all other traces, including those outside its shard."""


class SmallFiles:
    def __init__(self, folder: Path, memory_bytes: int = 256 << 20) -> None:
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._traces: list[tuple[int, ...]] = []
        self._names: dict[str, list[int]] = {}
        self.ranks: dict[int, int | None] = {}
        """The rank of each trace; known after :meth:`consolidated`."""

    def add(self, trace_ids: tuple[int, ...], small: Mapping[str, bytes]) -> int:
        """Add the small files of a shard; return the number of the shard."""
        number = len(self._traces)
        self._traces.append(trace_ids)
        for name, data in small.items():
            place = self._place(name, number)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            self._names.setdefault(name, []).append(number)
        return number

    def consolidated(self) -> Iterator[tuple[str, Path, int]]:
        """Yield the name, file, and number of rows of each table and analysis.

        A file exists only until the next one is requested.
        """
        import duckdb

        if not self._traces:
            return
        target = self._folder / "all.parquet"
        with duckdb.connect() as connection:
            connection.execute(
                f"SET threads = 1; SET memory_limit = '{self._memory_bytes >> 10}KiB'; "
                f"SET temp_directory = {quote(str(self._folder / 'spill'))}"
            )
            self._prepare(connection)
            self.ranks = dict(connection.execute("SELECT trace_id, rank FROM trace").fetchall())
            for name, sql in self._statements():
                written = connection.execute(
                    f"COPY ({sql}) TO {quote(str(target))} ({WRITTEN_AS})"
                ).fetchone()
                yield name, target, written[0] if written else 0
                with contextlib.suppress(OSError):
                    target.unlink()

    def _prepare(self, connection: duckdb.DuckDBPyConnection) -> None:
        from tracekit.analysis.catalog import load_catalog

        connection.execute(
            f"CREATE TABLE trace AS FROM {self._read('tables/trace')}; "
            "CREATE TABLE shard_trace (shard BIGINT, trace_id INTEGER)"
        )
        pairs = [(shard, one) for shard, ids in enumerate(self._traces) for one in ids]
        connection.execute(f"INSERT INTO shard_trace VALUES {rows(pairs)}")
        for name in ("interval_adjacent", "health_of_ranks"):
            connection.execute(load_catalog().functions[name].sql)

    def _statements(self) -> Iterator[tuple[str, str]]:
        for table in SMALL_TABLES:
            name = f"tables/{table}"
            if table == "range_marker":
                yield name, _numbered(self._read(name))
                yield f"tables/{MARKER_NUMBER}", self._marker_numbers()
            elif table in WITHOUT_TRACE:
                keys = ", ".join(WITHOUT_TRACE[table])
                yield name, f"SELECT DISTINCT * FROM {self._read(name)} ORDER BY {keys}"
            else:
                yield name, self._in_order(name, "trace_id")
        for name in self._names:
            if name.startswith("analyses/"):
                in_order = self._in_order(name, "rank NULLS LAST, trace_id")
                yield name, _with_ranks_of_all(in_order) if name == "analyses/health" else in_order

    def _in_order(self, name: str, keys: str) -> str:
        source = self._read(name, "file_row_number = TRUE")
        return f"SELECT * EXCLUDE (file_row_number) FROM {source} ORDER BY {keys}, file_row_number"

    def _marker_numbers(self) -> str:
        """Return SQL for new marker numbers, because each shard numbers markers from 1."""
        shards = " UNION ALL ".join(
            f"SELECT {number} AS shard, marker_id, category, name FROM read_parquet("
            f"{quote(str(self._place('tables/range_marker', number)))})"
            for number in self._names["tables/range_marker"]
        )
        return (
            "SELECT t.trace_id, p.marker_id AS shard_marker_id, a.marker_id "
            f"FROM ({shards}) AS p INNER JOIN shard_trace AS t ON p.shard = t.shard "
            f"INNER JOIN ({_numbered(self._read('tables/range_marker'))}) AS a "
            "ON p.category = a.category AND p.name = a.name "
            "ORDER BY t.trace_id, p.marker_id"
        )

    def _read(self, name: str, options: str = "") -> str:
        numbers = sorted(self._names.get(name, ()), key=lambda number: self._traces[number])
        files = ", ".join(quote(str(self._place(name, number))) for number in numbers)
        return f"read_parquet([{files}]{', ' + options if options else ''})"

    def _place(self, name: str, number: int) -> Path:
        return self._folder / name / f"{number}.parquet"


def _numbered(source: str) -> str:
    """Return SQL for the distinct markers of all shards, numbered as in a store."""
    return (
        "SELECT * REPLACE ((row_number() OVER (ORDER BY category, name))::INTEGER AS marker_id) "
        "FROM (SELECT DISTINCT ON (category, name) * FROM "
        f"{source} ORDER BY category, name) ORDER BY marker_id"
    )


def _with_ranks_of_all(health: str) -> str:
    """Return SQL for the rows of health; metrics that need all traces are recomputed."""
    across = ", ".join(map(quote, _ACROSS))
    return f"""
        WITH fact AS (SELECT * FROM trace INNER JOIN rank_facts() USING (trace_id)),
        across AS (SELECT trace_id, unnest(fact) FROM health_of_ranks('fact')),
        health_row AS (SELECT *, row_number() OVER () AS place FROM ({health}))
        SELECT
            s.* EXCLUDE (place) REPLACE (
                if(s.metric IN ({across}), a.value, s.value) AS value,
                if(s.metric IN ({across}), a.severity, s.severity) AS severity,
                if(s.metric IN ({across}), a.meaning, s.meaning) AS meaning
            )
        FROM health_row AS s
        LEFT JOIN across AS a ON s.trace_id = a.trace_id AND s.metric = a.metric
        ORDER BY s.place"""


def write_run_tables(runs: Sequence[Place], folder: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield the tables that run folders fill, each with its file and number of rows.

    A file exists only until the next one is requested.
    """
    if not runs:
        return
    import duckdb

    from tracekit.analysis.library import library_file
    from tracekit.database.connections import create_tables
    from tracekit.ingest.runs import load_runs
    from tracekit.schema import RUN_TABLES

    target = folder / "runs.parquet"
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        create_tables(connection, library_file())
        load_runs(connection, runs, folder)
        if (connection.execute("SELECT EXISTS (FROM benchmark)").fetchone() or (False,))[0]:
            from tracekit.analysis.names.device_peaks import fill_named_peaks

            fill_named_peaks(connection)
        for table in (*(table.name for table in RUN_TABLES), "rejected"):
            count = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
            if count and count[0]:
                connection.execute(f"COPY {table} TO {quote(str(target))} ({WRITTEN_AS})")
                yield table, target, count[0]
                target.unlink()
