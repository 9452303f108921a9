"""Reads SQL from the terminal with history, completion and highlighting: the extra `shell`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

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

from tracekit.cli._prompt import is_complete

_WORD = re.compile(r"(?:(?P<owner>[A-Za-z_]\w*)\.)?(?P<word>[A-Za-z_]\w*)?$")
_WANTS_TABLE = re.compile(r"\b(?:from|join|describe|summarize|table)\s+\w*$", re.IGNORECASE)
_ALIAS = re.compile(r"\b(?:from|join)\s+(?P<table>\w+)\s+(?:as\s+)?(?P<alias>\w+)", re.IGNORECASE)


def line_editor(
    relations: Mapping[str, tuple[str, ...]], keywords: Iterable[str], commands: Iterable[str]
) -> Callable[[], str]:
    """Return what reads a statement; names of `relations`, with their columns, are completed."""
    session: PromptSession[str] = PromptSession(
        message="tracekit> ",
        history=_history(),
        lexer=PygmentsLexer(PostgresLexer),
        completer=SqlCompleter(relations, keywords, commands),
        complete_while_typing=True,
        auto_suggest=AutoSuggestFromHistory(),
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation="     ...> ",
    )
    return session.prompt


def history_path() -> Path:
    """Return where the history is kept: under the XDG state folder."""
    given = os.environ.get("XDG_STATE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".local" / "state"
    return base / "tracekit" / "sql_history"


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
