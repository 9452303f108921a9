"""The interactive SQL prompt: history, completion, highlighting; an error does not end it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import PostgresLexer

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Column, Result
from tracekit.cli._emit import MAX_ROWS, emit, emit_stream
from tracekit.errors import QueryError, TracekitError
from tracekit.render._text import printable
from tracekit.schema import SESSION_TABLES, TABLES

if TYPE_CHECKING:
    from tracekit.trace import Trace


_WORD = re.compile(r"(?:(?P<owner>[A-Za-z_]\w*)\.)?(?P<word>[A-Za-z_]\w*)?$")
_WANTS_TABLE = re.compile(r"\b(?:from|join|describe|summarize|table)\s+\w*$", re.IGNORECASE)
_ALIAS = re.compile(r"\b(?:from|join)\s+(?P<table>\w+)\s+(?:as\s+)?(?P<alias>\w+)", re.IGNORECASE)

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
    session: PromptSession[str] = PromptSession(
        message="tracekit> ",
        history=_history(),
        lexer=PygmentsLexer(PostgresLexer),
        completer=_completer(trace),
        complete_while_typing=True,
        auto_suggest=AutoSuggestFromHistory(),
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation="     ...> ",
    )
    click.echo(
        "End a statement with a semicolon; .help lists the commands, .quit leaves.", err=True
    )
    while True:
        try:
            text = session.prompt().strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.rstrip(";").strip() in (".quit", ".exit"):
            return
        if text:
            answer(trace, text, format_name, max_rows=max_rows, timeout_s=timeout_s)


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


def history_path() -> Path:
    """Return where the history is kept: under the XDG state folder."""
    given = os.environ.get("XDG_STATE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".local" / "state"
    return base / "tracekit" / "sql_history"


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


def _completer(trace: Trace) -> SqlCompleter:
    relations = {
        name: tuple(column for column, _ in columns)
        for name, columns in _columns_of_store(trace).items()
    }
    keywords = trace.sql("SELECT keyword_name FROM duckdb_keywords()").column("keyword_name")
    return SqlCompleter(relations, keywords, _COMMANDS)


def _history() -> History:
    path = history_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Statements may name what is private: only the user reads them.
        path.touch(mode=0o600)
    except OSError as error:
        click.echo(f"no history is kept: {error}", err=True)
        return InMemoryHistory()
    return FileHistory(str(path))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @Condition
    def is_ready() -> bool:
        buffer = get_app().current_buffer
        return buffer.document.is_cursor_at_the_end and is_complete(buffer.text)

    @keys.add("enter", filter=is_ready)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys


def _columns_of_store(trace: Trace) -> dict[str, list[tuple[str, str]]]:
    """Return the columns (name, DuckDB type) of every table and view of the store."""
    found: dict[str, list[tuple[str, str]]] = {}
    for table, column, type_name in trace.sql(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE NOT internal AND database_name IN (current_database(), 'temp') "
        "ORDER BY table_name, column_index"
    ):
        found.setdefault(table, []).append((column, type_name))
    return found


def _tables(trace: Trace) -> Result:
    """Return the tables and views with what a row of each is."""
    rows_of = {table.name: table.row for table in (*TABLES, *SESSION_TABLES)}
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
        (table.name, column.name): column.meaning
        for table in (*TABLES, *SESSION_TABLES)
        for column in table.columns
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


class SqlCompleter(Completer):
    """Completes the word before the cursor."""

    def __init__(
        self,
        relations: Mapping[str, tuple[str, ...]],
        keywords: Iterable[str],
        commands: Iterable[str],
    ) -> None:
        self._relations = dict(relations)
        self._keywords = sorted(keyword.upper() for keyword in keywords)
        self._commands = sorted(commands)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield what may stand at the cursor, the likeliest first."""
        text = document.text_before_cursor
        if text.lstrip().startswith("."):
            yield from self._dot_command(text.lstrip())
            return
        match = _WORD.search(text)
        if match is None:
            return
        word = match["word"] or ""
        if match["owner"]:
            yield from _matching(self._columns_of(match["owner"], document.text), word, "column")
            return
        if not word and not complete_event.completion_requested:
            return
        if _WANTS_TABLE.search(text):
            yield from _matching(sorted(self._relations), word, "table")
            return
        mentioned = [name for name in self._relations if re.search(rf"\b{name}\b", document.text)]
        columns = {column for name in mentioned for column in self._relations[name]}
        yield from _matching(sorted(columns), word, "column")
        yield from _matching(sorted(self._relations), word, "table")
        yield from _matching(self._keywords, word, "keyword")

    def _dot_command(self, text: str) -> Iterable[Completion]:
        command, space, argument = text.partition(" ")
        if not space:
            yield from _matching(self._commands, command, "command")
        elif command == ".schema":
            yield from _matching(sorted(self._relations), argument, "table")

    def _columns_of(self, owner: str, text: str) -> Iterable[str]:
        aliases = {match["alias"].lower(): match["table"] for match in _ALIAS.finditer(text)}
        return self._relations.get(owner, self._relations.get(aliases.get(owner.lower(), ""), ()))


def _matching(names: Iterable[str], word: str, meta: str) -> Iterable[Completion]:
    lowered = word.lower()
    for name in names:
        if name.lower().startswith(lowered) and name.lower() != lowered:
            yield Completion(name, start_position=-len(word), display_meta=meta)
