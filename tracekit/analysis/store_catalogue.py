"""Checks that the catalogue of a store contains only tracekit's tables, views, and macros.

An untrusted store could define views and macros with the names of tracekit's relations or DuckDB's
functions. Queries would then run the store's SQL. So its catalogue is compared with the catalogue
of an empty store created here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import duckdb

from tracekit.analysis.library import library_file, start_session
from tracekit.database.connections import SCRATCH, create_tables, lock
from tracekit.database.opening import OF_TRACES
from tracekit.errors import StoreError
from tracekit.event_description import MAX_TIME_US
from tracekit.schema import TABLES
from tracekit.units import NS_PER_US

_PIECES = ("trace_id", "event_id", "piece")
KEYS: Mapping[str, tuple[str, ...]] = {
    "trace": ("trace_id",),
    "thread": ("trace_id", "pid", "tid"),
    "module": ("trace_id", "module_id"),
    "record": ("trace_id", "event_id"),
    "launch": ("trace_id", "launch_id"),
    "launch_context": ("trace_id", "event_id"),
    **dict.fromkeys(("device_events", "launch_link", "attribution", "cpu_work"), _PIECES),
}
"""Key columns of tables. If keys are not unique, joins can produce far too many rows."""

_SAMPLE_ROWS = 20_000
"""Number of sampled rows, enough to detect duplicate keys that would double a joined table."""

_FREE_ROWS = 1_000_000
"""Maximum number of rows of a store, in addition to one row per byte of the file."""

Catalogue = dict[tuple[str, str], str]
"""The statement that creates each entry, by kind and name."""


def check_catalogue(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Check that a store has the relations of tracekit and no others.

    The store is attached as ``store``. Nothing has been read from it yet, and its SQL cannot access
    files.
    """
    expected, result = _reference(), _catalogue_of(connection, "store")
    if ("table", OF_TRACES) not in result:
        # A store of runs without traces.
        ingested = {table.name for table in TABLES}
        expected = {entry: text for entry, text in expected.items() if entry[1] in ingested}
    for entry in sorted(result.keys() | expected.keys()):
        kind, name = entry
        if entry not in result:
            what = f"the {kind} {name} is missing"
        elif entry not in expected:
            what = f"unknown {kind} {name!r}"
        elif result[entry] != expected[entry]:
            what = f"the {kind} {name} differs from tracekit's"
        else:
            continue
        raise StoreError(
            f"{path}: not a tracekit store: {what}",
            hint="create it again from the trace: tracekit ingest TRACE -o STORE",
        )


def check_rows(
    connection: duckdb.DuckDBPyConnection, shown: str, size_bytes: int, prefix: str = ""
) -> float:
    """Check that the rows of a store or dataset can come from traces, and derive a time limit.

    Returns:
        Time limit of a statement, seconds: 50 times the usual time on a trace.
    """
    row_count, most_ns = 0, MAX_TIME_US * NS_PER_US
    for table, key in KEYS.items():
        place, keys = f"{prefix}{table}", ", ".join(key)
        described = connection.execute(f"DESCRIBE {place}").fetchall()
        times = [name for name, kind, *_ in described if kind == "BIGINT" and "_ns" in name]
        bounds = [f"max(abs({name}::HUGEINT)) > {most_ns}" for name in times]
        bounds += [f"sum({name}) > {most_ns}" for name in times if name == "dur_ns"]
        events = "WHERE view_name = 'event'" if table == "record" else ""
        problems = {
            f"several rows with the same {key[-1]}": f"EXISTS (SELECT 1 FROM (SELECT {keys} "
            f"FROM {place} USING SAMPLE reservoir({_SAMPLE_ROWS} ROWS)) GROUP BY {keys} "
            "HAVING count(*) > 1)",
            "impossible times": f"EXISTS (SELECT 1 FROM {place} {events} "
            f"HAVING {' OR '.join([*bounds, 'FALSE'])})",
        }
        if table == "module":  # Parents have smaller numbers than their children.
            is_inside_out = f"EXISTS (SELECT 1 FROM {place} WHERE parent_id >= module_id)"
            problems["a module that contains itself"] = is_inside_out
        count, *rows = connection.execute(
            f"SELECT (SELECT count(*) FROM {place}), {', '.join(problems.values())}"
        ).fetchall()[0]
        row_count += count
        has = [problem for problem, is_found in zip(problems, rows, strict=True) if is_found]
        if row_count > _FREE_ROWS + size_bytes:
            has.append(f"{row_count:,} rows in {size_bytes:,} bytes")
        if has:
            raise StoreError(
                f"{shown}: not a tracekit store: {table} has {has[0]}",
                hint="create it again from the trace: tracekit ingest TRACE -o STORE",
            )
    return 20 + row_count * 1e-4


@cache
def _reference() -> Catalogue:
    """Return the catalogue of an empty store with all tables and views."""
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = 1; ATTACH ':memory:' AS {SCRATCH}")
        connection.execute("ATTACH ':memory:' AS store; USE store")
        create_tables(connection, library_file(), "store")
        start_session(connection)
        lock(connection)
        return _catalogue_of(connection, "store")


def _catalogue_of(connection: duckdb.DuckDBPyConnection, database: str) -> Catalogue:
    """Return the entries of a database, using qualified functions, which it cannot shadow."""
    where = f"WHERE database_name = '{database}' AND NOT internal"
    result: Catalogue = {}
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
            # Concatenate entries with equal names, such as overloads.
            result[kind, name] = result.get((kind, name), "") + "\0".join(map(str, texts))
    return result
