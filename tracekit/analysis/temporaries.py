"""Tables that are made when something first requires them: what few questions read.

Each is a SQL file of Kind ``temporary``. They lie beside the session tables, in a database in
memory that all connections to one store see, and are gone with the last of them.

An analysis of traces that a statement calls, as ``FROM timeline(p_min_gap_ns := 1000)``, becomes a
table macro of the connection.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from threading import Lock

import duckdb

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.graph_sweeps import TABLES, create_swept
from tracekit.analysis.header import SQL_TOKEN
from tracekit.analysis.macros import is_of_nothing, provide_macros
from tracekit.analysis.params import default_of
from tracekit.analysis.session_tables import DATABASE, provide_tables
from tracekit.analysis.spec import Spec
from tracekit.sql_text import literal

_READ = re.compile(
    r"(?:\b(?:from|join|describe|summarize|table)\s+(?:temp\.)?|,\s*|\w\(\s*')"
    r"\"?(?P<name>[a-z_]+)"
)
"""What a statement may read: behind FROM and its like, in a list, or as a macro's argument."""

_CALLED = re.compile(r"(?:\b(?:from|join)|,)\s*(?P<name>[a-z_]+)\s*\(")
"""An analysis that a statement may call."""

_MAKING = Lock()


def provide_temporaries(connection: duckdb.DuckDBPyConnection, spec: Spec) -> None:
    """Give a connection the temporary tables that a SQL file requires.

    Raises:
        duckdb.Error: a table cannot be made.
    """
    _provide(connection, spec.requires)


def provide_temporaries_in(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Give a connection the temporary tables that a statement may name.

    Where a store lacks what they are made of, DuckDB says so of a statement that does read them.
    """
    with contextlib.suppress(duckdb.CatalogException):
        _provide(connection, _READ.findall(text.lower()))
        for name in dict.fromkeys(_CALLED.findall(text.lower())):
            spec = load_catalog().analyses.get(name)
            if spec is not None and spec.scope == "trace":
                provide_tables(connection, spec)
                _provide(connection, spec.requires)
                provide_macros(connection, spec)
                connection.execute(_macro_of_analysis(spec))


def _macro_of_analysis(spec: Spec) -> str:
    """Return what makes an analysis a table macro; ``limit`` of its header is ``p_limit`` of that.

    Columns have the names of parameters, and some of these are words of SQL.
    """

    def replaced(match: re.Match[str]) -> str:
        param = params.get(match["param"])
        return match[0] if param is None else f"CAST(p_{param.name} AS {param.type})"

    params = {param.name: param for param in spec.params}
    takes = ", ".join(
        f"p_{name}" + ("" if param.default is None else f" := {literal(default_of(param))}")
        for name, param in params.items()
    )
    body = SQL_TOKEN.sub(replaced, spec.sql)
    return f"CREATE OR REPLACE TEMP MACRO {spec.name}({takes}) AS TABLE (\n{body}\n)"


def _provide(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    temporaries = load_catalog().temporaries
    needed = [name for name in dict.fromkeys(names) if name in temporaries]
    if not needed:
        return
    with _MAKING:
        try:
            for name in needed:
                _make(connection, temporaries[name])
        except duckdb.OutOfMemoryException:
            # What is there of them is of no use to anybody.
            for name in temporaries:
                connection.execute(f"DROP VIEW IF EXISTS temp.{name}")
                connection.execute(f"DROP TABLE IF EXISTS {DATABASE}.main.{name}")
            raise


def _make(connection: duckdb.DuckDBPyConnection, spec: Spec) -> None:
    temporaries = load_catalog().temporaries
    place = f"{DATABASE}.main.{spec.name}"
    try:
        connection.execute(f"FROM {place} LIMIT 0")
    except duckdb.CatalogException:
        for name in spec.requires:
            if name in temporaries:
                _make(connection, temporaries[name])
        connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {DATABASE}")
        provide_macros(connection, spec)
        if is_of_nothing(connection, spec):
            connection.execute(spec.empty_table(place))
        elif spec.name in TABLES:
            create_swept(connection, place, TABLES[spec.name], spec.sql)
        else:
            connection.execute(f"CREATE TABLE {place} AS\n{spec.sql}")
    connection.execute(f"CREATE TEMP VIEW IF NOT EXISTS {spec.name} AS FROM {place}")
