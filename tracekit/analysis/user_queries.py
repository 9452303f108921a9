"""Runs SQL files of the user's, which read the trace.

An analysis, a view or a table is one SELECT, one of functions nothing but macros. They are made on
a connection of their own, which is gone afterwards: no file changes what another analysis gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb

from tracekit.analysis.header import SQL_TOKEN
from tracekit.analysis.interruptible import interruptible
from tracekit.analysis.params import bind
from tracekit.analysis.query_errors import sql_error
from tracekit.analysis.query_folders import Library, OwnFile
from tracekit.analysis.relations import ensure, has_no_input, with_values
from tracekit.analysis.result import Column, Result
from tracekit.analysis.run import columns_of, declared_otherwise
from tracekit.analysis.spec import Spec
from tracekit.database import cursor_of
from tracekit.errors import QueryError, StoreError
from tracekit.sql_text import quote

_MACRO = re.compile(r"CREATE\s+OR\s+REPLACE\s+MACRO\s+(?P<name>[A-Za-z_]\w*)\s*\(", re.IGNORECASE)


def run_own_analysis(
    connection: duckdb.DuckDBPyConnection,
    library: Library,
    own: OwnFile,
    params: Mapping[str, object],
) -> Result:
    """Run an analysis of the user's, on another connection to the store.

    Raises:
        QueryError: a parameter is unknown or missing, the SQL fails, or its columns are not those
            of its header.
        UsageError: a parameter has the wrong type.
        StoreError: the store is damaged.
    """
    spec = own.spec
    statement = with_values(spec, bind(spec, params))
    with own_cursor(connection, library, own) as cursor:
        columns, rows = interruptible(cursor, lambda: _answer(cursor, spec, statement))
    different = declared_otherwise(spec, columns)
    if different is not None:
        raise QueryError(
            f"{spec.path}: the columns are not those of the header ({different})",
            hint=f"tracekit query --check {spec.path} says more",
        )
    return Result(spec.name, columns, rows, spec.keep)


@contextmanager
def own_cursor(
    connection: duckdb.DuckDBPyConnection,
    library: Library,
    own: OwnFile,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection that has what a file requires, and can only read.

    Raises:
        QueryError: a file that it requires fails.
    """
    needed = in_order(library, own)
    cursor = cursor_of(connection)
    try:
        for other in needed:
            ensure(cursor, _ours(other.spec, library))
            if other is not own:
                lay(cursor, other.spec)
        cursor.execute("BEGIN TRANSACTION READ ONLY")
        yield cursor
    finally:
        cursor.close()


def in_order(library: Library, own: OwnFile) -> list[OwnFile]:
    """Return what a file requires of the user's other files, and itself, each behind what it needs.

    Raises:
        QueryError: files require each other in a circle.
    """
    found: dict[str, OwnFile] = {}
    opened: list[str] = []

    def add(one: OwnFile) -> None:
        name = one.spec.name
        if name in opened:
            raise QueryError(
                f"{one.spec.path}: these require each other: {' → '.join([*opened, name])}"
            )
        opened.append(name)
        for required in one.spec.requires:
            if required in library.files and required not in found:
                add(library.files[required])
        opened.pop()
        found[name] = one

    add(own)
    return list(found.values())


def lay(connection: duckdb.DuckDBPyConnection, spec: Spec) -> None:
    """Make a view, a table or the macros of a file, for this connection alone.

    Raises:
        QueryError: it is something else, it has the name of something of the store's, or it fails.
    """
    try:
        if spec.kind == "function":
            for statement in macro_statements(connection, spec):
                connection.execute(statement)
            return
        if spec.kind == "analysis":
            raise QueryError(
                f"{spec.path}: no file can require it: it is an analysis",
                hint="put what they share into a file of Kind: view",
            )
        sql = only_select(connection, spec, spec.sql)
        if _is_there(connection, spec.name):
            raise QueryError(
                f"{spec.path}: the store has a table or view of that name",
                hint="give the file another name",
            )
        what = "TABLE" if spec.kind == "table" else "VIEW"
        connection.execute(f"CREATE TEMP {what} {spec.name} AS\n{sql}")
    except duckdb.Error as error:
        raise own_error(connection, spec, error) from error


def lay_named(connection: duckdb.DuckDBPyConnection, library: Library, text: str) -> None:
    """Make the user's views, tables and macros that a statement names, for its connection."""
    words = set(re.findall(r"\w+", text))
    for name, own in library.files.items():
        if name not in words or own.spec.kind == "analysis":
            continue
        for other in in_order(library, own):
            if not _is_there(connection, other.spec.name):
                ensure(connection, _ours(other.spec, library))
                lay(connection, other.spec)


def only_select(connection: duckdb.DuckDBPyConnection, spec: Spec, sql: str) -> str:
    """Return a statement without its end, if it is one, and only reads.

    Raises:
        QueryError: it is none, several, or one that does something else.
        duckdb.Error: it cannot be parsed.
    """
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise QueryError(
            f"{spec.path}: there are {len(statements)} statements in it",
            hint=f"of kind {spec.kind}, a file is one SELECT",
        )
    if statements[0].type != duckdb.StatementType.SELECT:
        raise QueryError(
            f"{spec.path}: its statement is no SELECT", hint="a file can only read the trace"
        )
    return statements[0].query.rstrip().rstrip(";")


def select_of(connection: duckdb.DuckDBPyConnection, spec: Spec, statement: str) -> str:
    """Return the SELECT of a file; without rows where its input has none, as tracekit's own are.

    Raises:
        QueryError: it is another statement, or several.
        duckdb.Error: it cannot be parsed.
    """
    sql = only_select(connection, spec, statement)
    return f"FROM ({sql}\n) LIMIT 0" if has_no_input(connection, spec) else sql


def macro_statements(connection: duckdb.DuckDBPyConnection, spec: Spec) -> list[str]:
    """Return the statements of a macro file, so that a connection has the macros for itself.

    Raises:
        QueryError: one of them makes something else, or a macro of a name that is taken.
        duckdb.Error: one cannot be parsed.
    """
    made = []
    for statement in connection.extract_statements(spec.sql):
        text = without_comments(statement.query).strip()
        match = _MACRO.match(text)
        if match is None:
            raise QueryError(
                f"{spec.path}: a statement in it makes no macro",
                hint="of kind function, a file is statements CREATE OR REPLACE MACRO name(…) AS …",
            )
        name = match["name"].lower()
        found = connection.execute(
            "SELECT 1 FROM duckdb_functions() "
            f"WHERE function_name = {quote(name)} AND database_name <> 'temp' LIMIT 1"
        ).fetchall()
        if found:
            raise QueryError(
                f"{spec.path}: there is a function {name} already", hint="give it another name"
            )
        made.append("CREATE OR REPLACE TEMP MACRO " + text[match.start("name") :])
    return made


def without_comments(sql: str) -> str:
    """Return SQL with a blank for every comment."""
    return SQL_TOKEN.sub(
        lambda match: " " if match.group().startswith(("--", "/*")) else match.group(), sql
    )


def own_error(
    connection: duckdb.DuckDBPyConnection, spec: Spec, error: duckdb.Error | UnicodeDecodeError
) -> QueryError | StoreError:
    """Return what to say of a file whose SQL failed."""
    try:
        # After an error, nothing can be looked up in the transaction that it happened in.
        connection.execute("ROLLBACK")
    except duckdb.Error:
        pass
    said = sql_error(connection, error)
    return type(said)(f"{spec.path}: {said.message}", hint=said.hint)


def _answer(
    connection: duckdb.DuckDBPyConnection, spec: Spec, statement: str
) -> tuple[tuple[Column, ...], list[tuple[Any, ...]]]:
    try:
        connection.execute(select_of(connection, spec, statement))
        return columns_of(connection), connection.fetchall()
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise own_error(connection, spec, error) from error


def _ours(spec: Spec, library: Library) -> list[str]:
    """Return what a file requires of tracekit's own."""
    return [name for name in spec.requires if name not in library.files]


def _is_there(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    tables: Iterable[object] = connection.execute(
        f"SELECT 1 FROM duckdb_tables() WHERE table_name = {quote(name)} "
        f"UNION ALL SELECT 1 FROM duckdb_views() WHERE view_name = {quote(name)}"
    ).fetchall()
    return bool(tables)
