"""Completion for the SQL prompt: tables, views, their columns, and keywords."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

_WORD = re.compile(r"(?:(?P<owner>[A-Za-z_]\w*)\.)?(?P<word>[A-Za-z_]\w*)?$")
_WANTS_TABLE = re.compile(r"\b(?:from|join|describe|summarize|table)\s+\w*$", re.IGNORECASE)
_ALIAS = re.compile(r"\b(?:from|join)\s+(?P<table>\w+)\s+(?:as\s+)?(?P<alias>\w+)", re.IGNORECASE)


class SqlCompleter(Completer):
    """Completes the word before the cursor.

    Args:
        relations: table or view name to the names of its columns.
        keywords: SQL keywords.
        commands: the prompt's own commands, each with its leading dot.
    """

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
