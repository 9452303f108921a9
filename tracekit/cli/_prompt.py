"""The interactive SQL prompt; an error does not end it.

With the extra `shell` it has history, completion and highlighting; without it, lines are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Column, Result
from tracekit.cli._emit import MAX_ROWS, emit, emit_stream
from tracekit.errors import QueryError, TracekitError
from tracekit.render._text import printable
from tracekit.schema import TABLES

if TYPE_CHECKING:
    from tracekit.trace import Trace


_COMMANDS = {
    ".tables": "the tables and views, and what a row of each is; not the private ones",
    ".schema": ".schema NAME: its columns with type, what they join, unit and meaning; "
    "without NAME, of all",
    ".help": "this list",
    ".quit": "leave (so does Ctrl-D)",
}


def run_prompt(
    trace: Trace, format_name: str, *, max_rows: int = MAX_ROWS, timeout_s: float | None = None
) -> None:
    """Read and run statements until `.quit` or Ctrl-D."""
    read = _reader(trace)
    click.echo(
        "End a statement with a semicolon; .help lists the commands, .quit leaves.", err=True
    )
    while True:
        try:
            text = read().strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.rstrip(";").strip() in (".quit", ".exit"):
            return
        if text:
            answer(trace, text, format_name, max_rows=max_rows, timeout_s=timeout_s)


def _reader(trace: Trace) -> Callable[[], str]:
    """Return what reads a statement from the terminal."""
    try:
        from tracekit.cli._line_editor import line_editor
    except ImportError:
        click.echo(
            "Completion and history need: pip install '.[shell]'",
            err=True,
        )
        return _read_lines
    relations = {
        name: tuple(column for column, _ in columns)
        for name, columns in _columns_of_store(trace).items()
    }
    keywords = trace.sql("SELECT keyword_name FROM duckdb_keywords()").column("keyword_name")
    return line_editor(relations, keywords, _COMMANDS)


def _read_lines() -> str:
    text = input("tracekit> ")
    while not is_complete(text):
        text += "\n" + input("     ...> ")
    return text


def answer(
    trace: Trace,
    text: str,
    format_name: str,
    *,
    max_rows: int = MAX_ROWS,
    timeout_s: float | None = None,
) -> None:
    """Run one statement or dot command and show what comes out, an error included."""
    try:
        if text.startswith("."):
            _dot_command(trace, text.rstrip(";").split())
        else:
            stream = trace.stream_sql(text, timeout_s=timeout_s)
            try:
                emit_stream(stream, format_name, max_rows)
            finally:
                trace.connection.abort()
    except TracekitError as error:
        click.echo(f"error: {printable(error.message)}", err=True)
        if error.hint:
            click.echo(f"hint: {printable(error.hint)}", err=True)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)


def is_complete(text: str) -> bool:
    """Return whether Enter runs the text: a dot command, a statement with its `;`, or nothing."""
    stripped = text.strip()
    return not stripped or stripped.startswith(".") or stripped.endswith(";")


def _dot_command(trace: Trace, words: list[str]) -> None:
    command, *arguments = words
    if command == ".tables":
        emit(_tables(trace), "table")
    elif command == ".schema":
        emit(_schema(trace, arguments[0] if arguments else None), "table")
    elif command == ".help":
        for name, meaning in _COMMANDS.items():
            click.echo(f"{name:<10}{meaning}")
    else:
        click.echo(f"error: unknown command {printable(command)}", err=True)
        click.echo("hint: .help lists the commands", err=True)


FIRST = ("event", "cpu_ops", "gpu_kernels", "gaps")
"""What most questions are about, which lists of tables begin with."""


def _columns_of_store(trace: Trace) -> dict[str, list[tuple[str, str]]]:
    """Return the columns (name, DuckDB type) of every table and view of the store."""
    found: dict[str, list[tuple[str, str]]] = {}
    for table, column, type_name in trace.sql(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE NOT internal AND database_name IN (current_database(), 'temp') "
        "ORDER BY table_name, column_index"
    ):
        found.setdefault(table, []).append((column, type_name))
    return {name: found[name] for name in (*FIRST, *found) if name in found}


def _tables(trace: Trace) -> Result:
    """Return the tables and views with what a row of each is."""
    rows_of = {table.name: table.row for table in TABLES}
    catalog = load_catalog()
    derived = (
        *catalog.tables.values(),
        *catalog.views.values(),
    )
    rows_of |= {spec.name: spec.question for spec in derived}
    private = {spec.name for spec in derived if spec.is_private}
    rows = [
        (name, rows_of.get(name, "")) for name in _columns_of_store(trace) if name not in private
    ]
    return Result("tables", (Column("name", "VARCHAR"), Column("meaning", "VARCHAR")), rows)


def _schema(trace: Trace, name: str | None) -> Result:
    """Return the columns of one table or view, or of all, with type, key and meaning.

    Raises:
        QueryError: there is no such table or view.
    """
    meanings = {
        (table.name, column.name): column.meaning for table in TABLES for column in table.columns
    }
    catalog = load_catalog()
    derived = (
        *catalog.tables.values(),
        *catalog.views.values(),
    )
    meanings |= {
        (spec.name, column.name): column.meaning for spec in derived for column in spec.columns
    }
    keys = {
        (spec.name, column.name): str(column.key)
        for spec in derived
        for column in spec.columns
        if column.key is not None
    }
    store = _columns_of_store(trace)
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
