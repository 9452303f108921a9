"""What a store's catalogue must say: the tables, views and macros that tracekit makes, no others.

A store is data. One that somebody else made could hold views and macros under the names of ours, or
under those of DuckDB's own functions, and so have its own SQL run where ours is meant. So what the
catalogue says is compared with what it says in a store that is made here, with nothing in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import duckdb

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.library import reads, start_session
from tracekit.analysis.relations import create_every_table
from tracekit.analysis.spec import Spec
from tracekit.database import SCRATCH, lock
from tracekit.database.opening import OF_TRACES
from tracekit.errors import StoreError
from tracekit.event_description import MAX_TIME_US
from tracekit.schema import TABLES
from tracekit.units import NS_PER_US

KEYS: Mapping[str, tuple[str, ...]] = {
    "trace": ("trace_id",),
    "thread": ("trace_id", "pid", "tid"),
    "module": ("trace_id", "module_id"),
    "record": ("trace_id", "event_id"),
    "launch": ("trace_id", "launch_id"),
    "surroundings": ("trace_id", "event_id"),
    "step_ranges": ("trace_id", "step"),
    **dict.fromkeys(
        ("device_events", "launch_link", "attribution", "cpu_work"),
        ("trace_id", "event_id", "piece"),
    ),
}
"""Columns that tell the rows of a table apart: where they do not, a join of rows has no end."""

_SAMPLE_ROWS = 20_000
"""So many rows show, as two of a birthday, that a join would have more rows than twice a table."""

_MAX_NS = MAX_TIME_US * NS_PER_US

_FREE_ROWS = 1_000_000
"""So many rows may be in any store; others take a byte at least, of which most take fifty."""

_LIMIT_S, _LIMIT_S_PER_ROW = 20.0, 1e-4
"""How long a statement may take: fifty times as long as one of a trace does."""

Catalogue = dict[tuple[str, str], str]
"""Of each entry its kind and name, and the statement that makes it."""


def check_catalogue(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Make sure that a store holds what tracekit makes, and nothing else.

    It is attached as ``store``; nothing of it has been used, and its SQL can reach nothing.

    Raises:
        StoreError: something in it is not ours, or is missing.
    """
    expected, found = _reference(), _catalogue_of(connection, "store")
    if ("table", OF_TRACES) not in found:
        # A store of runs without traces.
        ingested = {table.name for table in TABLES}
        expected = {entry: text for entry, text in expected.items() if entry[1] in ingested}
    for entry in sorted(found.keys() | expected.keys()):
        kind, name = entry
        if entry not in found:
            what = f"the {kind} {name} is missing"
        elif entry not in expected:
            what = f"it holds a {kind} {name!r}, which tracekit does not make"
        elif found[entry] != expected[entry]:
            what = f"the {kind} {name} is not tracekit's"
        else:
            continue
        raise StoreError(
            f"{path}: not a store as tracekit makes it: {what}",
            hint="make a new one from the trace: tracekit ingest TRACE -o STORE",
        )


def check_rows(
    connection: duckdb.DuckDBPyConnection, shown: str, size_bytes: int, prefix: str = ""
) -> float:
    """Make sure that the rows of a store or dataset can be those of traces.

    What is not looked at shows when it is used: see `DamagedStoreError`.

    Returns:
        How long a statement may take, seconds.

    Raises:
        StoreError: there are too many, or keys or times that no trace has.
    """

    def has(sql: str) -> bool:
        return connection.execute(f"SELECT 1 FROM {sql} LIMIT 1").fetchone() is not None

    row_count = 0
    for table, key in KEYS.items():
        place = f"{prefix}{table}"
        described = connection.execute(f"DESCRIBE {place}").fetchall()
        [(count,)] = connection.execute(f"SELECT count(*) FROM {place}").fetchall()
        row_count += count
        problem = None
        if row_count > _FREE_ROWS + size_bytes:
            problem = f"has {row_count:,} rows in {size_bytes:,} bytes"
        elif count > 1 and has(
            f"(SELECT {', '.join(key)} FROM {place} USING SAMPLE reservoir({_SAMPLE_ROWS} ROWS)) "
            f"GROUP BY {', '.join(key)} HAVING count(*) > 1"
        ):
            problem = f"has several rows of one {key[-1]}"
        else:
            times = [name for name, kind, *_ in described if kind == "BIGINT" and "_ns" in name]
            bounds = [f"max(abs({name}::HUGEINT)) > {_MAX_NS}" for name in times]
            bounds += [f"sum({name}) > {_MAX_NS}" for name in times if name == "dur_ns"]
            events = "WHERE view_name = 'event'" if table == "record" else ""
            if times and has(f"{place} {events} HAVING {' OR '.join(bounds)}"):
                problem = "has times beyond those of any trace"
        if problem is not None:
            raise StoreError(
                f"{shown}: not a store as tracekit makes it: {table} {problem}",
                hint="make a new one from the trace: tracekit ingest TRACE -o STORE",
            )
    return _LIMIT_S + row_count * _LIMIT_S_PER_ROW


@cache
def _reference() -> Catalogue:
    """Return the catalogue of a store that has every table and view, and no row in any."""
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = 1; ATTACH ':memory:' AS {SCRATCH}")
        connection.execute("ATTACH ':memory:' AS store; USE store")
        start_session(connection)
        lock(connection)
        create_every_table(connection)
        for view in views_in_order():
            connection.execute(f"CREATE VIEW {view.name} AS\n{view.sql}")
        return _catalogue_of(connection, "store")


def views_in_order() -> list[Spec]:
    """Return the views of a store, each behind those that it requires."""
    return _in_order(load_catalog().views)


def _in_order(views: Mapping[str, Spec]) -> list[Spec]:
    """Return views, each behind those that it requires."""
    found: dict[str, Spec] = {}

    def add(spec: Spec) -> None:
        for name in reads(spec.name):
            if name in views and name not in found:
                add(views[name])
        found[spec.name] = spec

    for spec in views.values():
        if spec.name not in found:
            add(spec)
    return list(found.values())


def _catalogue_of(connection: duckdb.DuckDBPyConnection, database: str) -> Catalogue:
    """Return what a database holds, by DuckDB's own functions, whatever has their names in it."""
    where = f"WHERE database_name = '{database}' AND NOT internal"
    found: Catalogue = {}
    for kind, sql in {
        "schema": f"SELECT schema_name, '' FROM system.main.duckdb_schemas() {where}",
        "table": f"SELECT table_name, sql FROM system.main.duckdb_tables() {where}",
        "view": f"SELECT view_name, sql FROM system.main.duckdb_views() {where}",
        "sequence": "SELECT sequence_name, '' FROM system.main.duckdb_sequences() "
        f"WHERE database_name = '{database}'",
        "index": "SELECT index_name, '' FROM system.main.duckdb_indexes() "
        f"WHERE database_name = '{database}'",
        "type": f"SELECT type_name, '' FROM system.main.duckdb_types() {where}",
        "macro": "SELECT function_name, function_type, parameters, macro_definition "
        f"FROM system.main.duckdb_functions() {where}",
    }.items():
        for name, *texts in connection.execute(sql).fetchall():
            # Of several of one name (in another schema, or by parameters) each counts.
            found[kind, name] = found.get((kind, name), "") + "\0".join(map(str, texts))
    return found
