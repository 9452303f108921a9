"""The dot commands of the SQL prompt: `.tables`, `.schema`, `.help`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Column, Result
from tracekit.errors import QueryError
from tracekit.schema import SESSION_TABLES, TABLES

if TYPE_CHECKING:
    from tracekit.trace import Trace

COMMANDS = {
    ".tables": "the tables and views, and what a row of each is; not the private ones",
    ".schema": ".schema NAME: its columns with type, what they join, unit and meaning; "
    "without NAME, of all",
    ".help": "this list",
    ".quit": "leave (so does Ctrl-D)",
}


def columns_of_store(trace: Trace) -> dict[str, list[tuple[str, str]]]:
    """Return the columns (name, DuckDB type) of every table and view of the store."""
    found: dict[str, list[tuple[str, str]]] = {}
    for table, column, type_name in trace.sql(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE NOT internal AND database_name IN (current_database(), 'temp') "
        "ORDER BY table_name, column_index"
    ):
        found.setdefault(table, []).append((column, type_name))
    return found


def tables(trace: Trace) -> Result:
    """Return the tables and views with what a row of each is."""
    rows_of = {table.name: table.row for table in (*TABLES, *SESSION_TABLES)}
    catalog = load_catalog()
    derived = (catalog.tables | catalog.views).values()
    rows_of |= {spec.name: spec.question for spec in derived}
    private = {spec.name for spec in derived if spec.is_private}
    rows = [
        (name, rows_of.get(name, "")) for name in columns_of_store(trace) if name not in private
    ]
    return Result("tables", (Column("name", "VARCHAR"), Column("meaning", "VARCHAR")), rows)


def schema(trace: Trace, name: str | None) -> Result:
    """Return the columns of one table or view, or of all, with type, key and meaning.

    Raises:
        QueryError: there is no such table or view.
    """
    meanings = {
        (table.name, column.name): column.meaning
        for table in (*TABLES, *SESSION_TABLES)
        for column in table.columns
    }
    catalog = load_catalog()
    derived = (catalog.tables | catalog.views).values()
    meanings |= {
        (spec.name, column.name): column.meaning for spec in derived for column in spec.columns
    }
    keys = {
        (spec.name, column.name): str(column.key)
        for spec in derived
        for column in spec.columns
        if column.key is not None
    }
    store = columns_of_store(trace)
    if name is not None and name not in store:
        raise QueryError(f"there is no table or view {name!r}", hint=".tables lists them")
    rows = [
        (
            table,
            column,
            type_name,
            keys.get((table, column)),
            meanings.get((table, column), ""),
        )
        for table, columns in store.items()
        if name in (None, table)
        for column, type_name in columns
    ]
    names = ("table", "column", "type", "joins", "meaning")
    return Result("schema", tuple(Column(header, "VARCHAR") for header in names), rows)
