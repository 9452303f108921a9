"""What every connection to a store has: its tables, a second one for a thread, its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.database.parsed import execute
from tracekit.schema import RUN_TABLES, TABLES

if TYPE_CHECKING:
    import duckdb

SCRATCH = "scratch"
"""The database in memory that a build has besides the store."""


def cursor_of(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return a second connection to the same store, for another thread."""
    row = connection.execute("SELECT current_database()").fetchone()
    cursor = connection.cursor()
    # A cursor begins in the database that its connection was opened with.
    cursor.execute(f"USE {row[0] if row else 'memory'}")
    return cursor


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the ingested tables, but for those of run folders."""
    made = [table.create_sql() for table in TABLES if table not in RUN_TABLES]
    execute(connection, ";\n".join(made))


def create_run_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables of run folders; apart, so that it can be done while a trace is read."""
    execute(connection, ";\n".join(table.create_sql() for table in RUN_TABLES))


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Keep SQL on this connection from files, the network and DuckDB's settings."""
    connection.execute("SET enable_external_access = FALSE; SET lock_configuration = TRUE")
