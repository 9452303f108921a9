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
"""Columns that tell the rows of a table apart: where they do not, a join of rows has no end."""

_SAMPLE_ROWS = 20_000
"""So many show, as two of a birthday do, that a join would have twice the rows of a table."""

_FREE_ROWS = 1_000_000
"""Rows that any store may have; each other one takes a byte at least."""

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
            what = f"unknown {kind} {name!r}"
        elif found[entry] != expected[entry]:
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
    """Make sure that the rows of a store or dataset can be those of traces.

    Returns:
        How long a statement may take, seconds: fifty times as long as one on a trace does.

    Raises:
        StoreError: there are too many, or keys or times that no trace has.
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
        if table == "module":  # They are numbered from the outside to the inside.
            is_inside_out = f"EXISTS (SELECT 1 FROM {place} WHERE parent_id >= module_id)"
            problems["a module that contains itself"] = is_inside_out
        count, *found = connection.execute(
            f"SELECT (SELECT count(*) FROM {place}), {', '.join(problems.values())}"
        ).fetchall()[0]
        row_count += count
        has = [problem for problem, is_found in zip(problems, found, strict=True) if is_found]
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
    """Return the catalogue of a store that has every table and view, and no row in any."""
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = 1; ATTACH ':memory:' AS {SCRATCH}")
        connection.execute("ATTACH ':memory:' AS store; USE store")
        create_tables(connection, library_file(), "store")
        start_session(connection)
        lock(connection)
        return _catalogue_of(connection, "store")


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
