"""Tables that a connection has besides its store's: what they hold may change, a store does not.

They lie in a database in memory that all connections to one DuckDB instance see; a temporary view
gives each its plain name. A connection on which nothing was laid has them empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import duckdb

from tracekit.analysis.result import Result
from tracekit.analysis.spec import Spec
from tracekit.schema import SESSION_TABLES, Table
from tracekit.sql_text import select_rows

DEVICE_CEILING = "device_ceiling"
"""The table of measured ceilings, and what SQL files write under ``Requires`` when they read it."""

DATABASE = "session"
"""The database in memory."""

_TABLES = {table.name: table for table in SESSION_TABLES}


def lay_table(
    connection: duckdb.DuckDBPyConnection, name: str, rows: Sequence[Sequence[object]]
) -> None:
    """Make a table of :data:`tracekit.schema.SESSION_TABLES` anew, seen by all connections."""
    table = _TABLES[name]
    place = f"{DATABASE}.main.{name}"
    connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {DATABASE}")
    connection.execute(f"DROP TABLE IF EXISTS {place}")
    connection.execute(replace(table, name=place).create_sql())
    if rows:
        types = {column.name: column.type for column in table.columns}
        connection.execute(f"INSERT INTO {place} {select_rows(types, rows)}")
    _show(connection, table)


def provide_tables(connection: duckdb.DuckDBPyConnection, spec: Spec) -> None:
    """Give a connection the tables of this kind that an analysis requires."""
    for name in spec.requires:
        if name in _TABLES:
            _show(connection, _TABLES[name])


def _show(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    try:
        connection.execute(
            f"CREATE TEMP VIEW IF NOT EXISTS {table.name} AS FROM {DATABASE}.main.{table.name}"
        )
    except duckdb.CatalogException:
        statement = table.create_sql()
        connection.execute(statement.replace("CREATE TABLE", "CREATE TEMP TABLE IF NOT EXISTS", 1))


class WithoutCeilings(Mapping[str, "Result"]):
    """The answers that hold whatever was measured on devices; each is read when it is asked for.

    Args:
        answers: the rows of analyses, by name.
    """

    def __init__(self, answers: Mapping[str, Result]) -> None:
        from tracekit.analysis.catalog import load_catalog

        analyses = load_catalog().analyses
        holding = {name for name, spec in analyses.items() if DEVICE_CEILING not in spec.requires}
        self._answers = answers
        self._names = [
            name
            for name in answers
            if name in holding
            and holding.issuperset(reduced.analysis for reduced in analyses[name].reduces)
        ]

    def __getitem__(self, name: str) -> Result:
        """Return the rows of an analysis.

        Raises:
            KeyError: they are not known, or no longer hold.
        """
        if name not in self._names:
            raise KeyError(name)
        return self._answers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
