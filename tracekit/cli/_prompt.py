"""The interactive SQL prompt: history, completion, highlighting; an error does not end it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import PostgresLexer

from tracekit.cli._emit import MAX_ROWS, emit, emit_stream
from tracekit.cli._prompt_commands import COMMANDS, columns_of_store, schema, tables
from tracekit.cli._prompt_completion import SqlCompleter
from tracekit.errors import TracekitError
from tracekit.render._text import printable

if TYPE_CHECKING:
    from tracekit.trace import Trace


def run_prompt(
    trace: Trace, format_name: str, *, max_rows: int = MAX_ROWS, timeout_s: float | None = None
) -> None:
    """Read and run statements until `.quit` or Ctrl-D.

    Args:
        trace: where the statements run.
        format_name: the output format.
        max_rows: how many rows of a statement are shown.
        timeout_s: how long a statement may take, seconds.
    """
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
    """Run one statement or dot command and show what comes out, an error included.

    Args:
        trace: where it runs.
        text: what was typed.
        format_name: the output format.
        max_rows: how many rows are shown.
        timeout_s: how long the statement may take, seconds.
    """
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
        emit(tables(trace), "table")
    elif command == ".schema":
        emit(schema(trace, arguments[0] if arguments else None), "table")
    elif command == ".help":
        for name, meaning in COMMANDS.items():
            click.echo(f"{name:<10}{meaning}")
    else:
        click.echo(f"error: unknown command {printable(command)}", err=True)
        click.echo("hint: .help lists the commands", err=True)


def _completer(trace: Trace) -> SqlCompleter:
    relations = {
        name: tuple(column for column, _ in columns)
        for name, columns in columns_of_store(trace).items()
    }
    keywords = trace.sql("SELECT keyword_name FROM duckdb_keywords()").column("keyword_name")
    return SqlCompleter(relations, keywords, COMMANDS)


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
