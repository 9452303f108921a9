"""Runs the user's SQL files, which are trusted as the user's own code.

Each runs on its own temporary connection, so that no file changes the result of another analysis.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any

import duckdb

from tracekit.analysis.interruptible import interruptible
from tracekit.analysis.library import reads_of
from tracekit.analysis.params import bind
from tracekit.analysis.query_errors import sql_error
from tracekit.analysis.query_folders import Library, OwnFile
from tracekit.analysis.relations import ensure, has_no_input, with_values
from tracekit.analysis.result import Column, Result, columns_of
from tracekit.analysis.run import declared_otherwise
from tracekit.analysis.spec import Spec
from tracekit.database.connections import cursor_of
from tracekit.errors import QueryError, StoreError
from tracekit.sql_text import quote, rows

_MACRO = re.compile(r"CREATE\s+OR\s+REPLACE\s+MACRO\s+(?P<name>[A-Za-z_]\w*)", re.IGNORECASE)
_ANSWER = "own_answer"

_log = logging.getLogger("tracekit")


def run_own_analysis(
    connection: duckdb.DuckDBPyConnection,
    library: Library,
    own: OwnFile,
    params: Mapping[str, object],
) -> Result:
    """Run an analysis of the user on another connection to the store."""
    spec = own.spec
    statement = with_values(spec, bind(spec, params))
    cursor = cursor_of(connection)
    try:
        *needed, _ = _in_order(library, own)
        ensure(cursor, reads_of(spec))
        for other in needed:
            _create(cursor, other.spec)
        columns, result = interruptible(cursor, lambda: _answer(cursor, spec, statement))
    finally:
        cursor.close()
    return Result(spec.name, columns, result, spec.keep)


def create_named(connection: duckdb.DuckDBPyConnection, library: Library, text: str) -> None:
    """Create the user's views, tables, and functions that a statement names, on its connection."""
    words = _words(text)
    for name, own in library.files.items():
        if name not in words or own.spec.kind == "analysis":
            continue
        for other in _in_order(library, own):
            if not _exists(connection, other.spec.name):
                _create(connection, other.spec)


def _in_order(library: Library, own: OwnFile) -> list[OwnFile]:
    """Return a user's file and its dependencies among the user's files, in order of creation."""
    graph: dict[str, list[str]] = {}
    waiting = [own.spec]
    while waiting:
        spec = waiting.pop()
        words = _words(spec.sql)
        graph[spec.name] = [
            name
            for name, other in library.files.items()
            if name != spec.name and not words.isdisjoint(_defined_by(other.spec))
        ]
        waiting += [library.files[name].spec for name in graph[spec.name] if name not in graph]
    try:
        return [library.files[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        circle = " → ".join(reversed(error.args[1]))
        raise QueryError(f"{own.spec.path}: these files depend on each other: {circle}") from None


def _create(connection: duckdb.DuckDBPyConnection, spec: Spec) -> None:
    """Create the view, table, or functions of a file on this connection."""
    if spec.kind == "analysis":
        raise QueryError(
            f"{spec.path}: another file cannot depend on an analysis",
            hint="put the shared part into a file of Kind: view",
        )
    ensure(connection, reads_of(spec))
    try:
        if spec.kind == "function":
            _reject_existing(connection, spec)
            connection.execute(_MACRO.sub(r"CREATE OR REPLACE TEMP MACRO \g<name>", spec.sql))
        elif _exists(connection, spec.name):
            raise QueryError(
                f"{spec.path}: the store has a table or view with that name",
                hint="rename the file",
            )
        else:
            what = "TABLE" if spec.kind == "table" else "VIEW"
            connection.execute(f"CREATE TEMP {what} {spec.name} AS\n{spec.sql}")
    except duckdb.Error as error:
        raise _own_error(connection, spec, error) from error


def _reject_existing(connection: duckdb.DuckDBPyConnection, spec: Spec) -> None:
    """Reject functions whose names already exist, because built-in analyses would call them."""
    names = [(match["name"].lower(),) for match in _MACRO.finditer(spec.sql)]
    if not names:
        return
    existing = connection.execute(
        "SELECT function_name FROM duckdb_functions() WHERE database_name <> 'temp' "
        f"AND function_name IN (SELECT * FROM (VALUES {rows(names)}))"
    ).fetchone()
    if existing:
        raise QueryError(f"{spec.path}: function {existing[0]} already exists", hint="rename it")


def _answer(
    cursor: duckdb.DuckDBPyConnection, spec: Spec, statement: str
) -> tuple[tuple[Column, ...], list[tuple[Any, ...]]]:
    try:
        if has_no_input(cursor, spec):
            cursor.execute(spec.empty_table(f"temp.{_ANSWER}"))
        else:
            cursor.execute(f"CREATE TEMP TABLE {_ANSWER} AS\n{statement}")
        cursor.execute(f"FROM {_ANSWER}")
        columns, rows = columns_of(cursor), cursor.fetchall()
        different = declared_otherwise(spec, columns)
        if different is not None:
            raise QueryError(f"{spec.path}: the columns differ from the header ({different})")
        for invariant in spec.invariants:
            broken = cursor.execute(
                f"FROM {_ANSWER} WHERE ({invariant}\n) IS DISTINCT FROM TRUE"
            ).fetchall()
            if broken:
                what = f"{len(broken):,} of {len(rows):,} rows"
                _log.warning("%s: invariant violated in %s: %s", spec.path, what, invariant)
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise _own_error(cursor, spec, error) from error
    return columns, rows


def _own_error(
    connection: duckdb.DuckDBPyConnection, spec: Spec, error: duckdb.Error | UnicodeDecodeError
) -> QueryError | StoreError:
    """Return the error for a file whose SQL failed."""
    with suppress(duckdb.Error):
        # A failed transaction allows no further statements.
        connection.execute("ROLLBACK")
    translated = sql_error(connection, error)
    return type(translated)(f"{spec.path}: {translated.message}", hint=translated.hint)


def _defined_by(spec: Spec) -> set[str]:
    """Return the names of the relations and functions that a file defines."""
    if spec.kind != "function":
        return {spec.name}
    return {match["name"] for match in _MACRO.finditer(spec.sql)}


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", re.sub(r"--[^\n]*", "", text)))


def _exists(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    rows = connection.execute(
        f"SELECT 1 FROM duckdb_tables() WHERE table_name = {quote(name)} "
        f"UNION ALL SELECT 1 FROM duckdb_views() WHERE view_name = {quote(name)}"
    ).fetchall()
    return bool(rows)
