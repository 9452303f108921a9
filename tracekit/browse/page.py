"""One page of a view: rows as the terminal shows them, and as they are, to go on from."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Result, picked
from tracekit.browse.query_worker import Answers
from tracekit.render._cells import TextColumn, text_columns
from tracekit.render._text import is_unsafe, printable
from tracekit.sql_text import quote

PAGE_ROWS = 200
"""So many rows are on the screen's table at a time."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """Rows of a view, from `first` on (0 is the first of all).

    `total` is None where counting them would mean asking for all; `note` stands below them.
    """

    columns: list[TextColumn]
    rows: list[Row]
    first: int
    is_more: bool
    total: int | None = None
    note: str = ""


class View(Protocol):
    """A table that one can walk: what it shows, what gives the same, and where each row leads."""

    @property
    def title(self) -> str:
        """What the table is about, as text that may hold anything."""

    def page(self, answers: Answers, number: int, search: str) -> Page:
        """Return a page, from 0; only rows that hold the text searched for, if there is one."""

    def told(self, traces: Sequence[str], search: str) -> str:
        """Return the commands and the SQL that give the same."""

    def deeper(self, row: Row) -> View | None:
        """Return what a row leads to; None where it leads nowhere."""


Deeper = Callable[[Row], View | None]


def shown(result: Result, names: Sequence[str]) -> list[TextColumn]:
    """Return some columns of a result as a terminal shows them."""
    return text_columns(picked(result, names), units=True)


def cut(result: Result, names: Sequence[str], number: int) -> Page:
    """Return a page, from 0, of a result that is there whole, with some of its columns."""
    first = number * PAGE_ROWS
    rows = result.rows[first : first + PAGE_ROWS]
    part = Result(result.name, result.columns, rows)
    total = len(result.rows)
    return Page(shown(part, names), [*part.to_dicts()], first, first + len(rows) < total, total)


def holding(result: Result, search: str) -> Result:
    """Return the rows one of whose texts holds the text searched for, in any case."""
    if not search:
        return result
    wanted = search.lower()
    rows = [
        row
        for row in result.rows
        if any(isinstance(cell, str) and wanted in cell.lower() for cell in row)
    ]
    return Result(result.name, result.columns, rows)


@dataclass(frozen=True, slots=True)
class Asked:
    """An analysis with its parameters."""

    name: str
    params: Mapping[str, object] = field(default_factory=dict)

    def told(self, traces: Sequence[str]) -> str:
        """Return its command and its SQL."""
        options = [
            word
            for name, value in self.params.items()
            for word in ("--" + name.replace("_", "-"), str(value))
        ]
        command = shlex.join(["tracekit", "query", self.name, *traces, *options])
        spec = load_catalog().analyses[self.name]
        return f"{command}\n\n{spec.sql.rstrip()}"


@dataclass(frozen=True, slots=True)
class AnalysisView:
    """Rows of an analysis, all or those with certain values.

    `first` has a column, and its values in the order in which their rows come.
    """

    title: str
    asked: Asked
    names: tuple[str, ...]
    where: Mapping[str, object] = field(default_factory=dict)
    lead: Deeper | None = None
    first: tuple[str, tuple[object, ...]] | None = None

    def page(self, answers: Answers, number: int, search: str) -> Page:
        """Return a page of the rows."""
        result = answers.query(self.asked.name, **self.asked.params)
        places = [(result.column_names.index(name), value) for name, value in self.where.items()]
        rows = [row for row in result.rows if all(row[place] == value for place, value in places)]
        if self.first is not None:
            column, order = self.first
            place = result.column_names.index(column)
            rows.sort(key=lambda row: order.index(row[place]))
        found = holding(Result(result.name, result.columns, rows), search)
        return cut(found, self.names, number)

    def told(self, traces: Sequence[str], search: str) -> str:
        """Return the analysis' command and SQL, and which of its rows are shown."""
        notes = [f"{name} is {value}" for name, value in self.where.items()]
        notes += [f"holding {search!r}"] if search else []
        text = self.asked.told(traces)
        return f"{text}\n\nShown of it: rows where {', and '.join(notes)}" if notes else text

    def deeper(self, row: Row) -> View | None:
        """Return where the row leads."""
        return self.lead(row) if self.lead else None


@dataclass(frozen=True, slots=True)
class SqlView:
    """Rows of a statement, read by pages.

    `names` are the columns shown; the others are there for what a row leads to.
    """

    title: str
    select: str
    order: str
    names: tuple[str, ...]
    searched: tuple[str, ...]
    lead: Deeper | None = None

    def _statement(self, search: str) -> str:
        if not search:
            return f"{self.select}\nORDER BY {self.order}"
        texts = " || ' ' || ".join(f"coalesce({name}, '')" for name in self.searched)
        return (
            f"SELECT * FROM (\n{self.select}\n)\n"
            f"WHERE contains(lower({texts}), lower({literal_of(search)}))\nORDER BY {self.order}"
        )

    def page(self, answers: Answers, number: int, search: str) -> Page:
        """Return a page of the rows; the other rows are not read."""
        first = number * PAGE_ROWS
        limit = f"LIMIT {PAGE_ROWS + 1} OFFSET {first}"
        found = answers.sql(f"{self._statement(search)}\n{limit}")
        part = Result(self.title, found.columns, found.rows[:PAGE_ROWS])
        is_more = len(found.rows) > PAGE_ROWS
        return Page(shown(part, self.names), [*part.to_dicts()], first, is_more)

    def told(self, traces: Sequence[str], search: str) -> str:
        """Return the statement, and the command that runs it."""
        command = shlex.join(["tracekit", "sql", *traces, "-"])
        # No text in the statement holds a line of its own: see literal_of().
        return f"{command} <<'SQL'\n{self._statement(search)}\nSQL"

    def deeper(self, row: Row) -> View | None:
        """Return where the row leads."""
        return self.lead(row) if self.lead else None


def literal_of(text: str) -> str:
    """Return a text as SQL in which every character can be shown, so that what is told runs.

    A newline or a mark that turns text around would be shown as its escape, which is another text.
    """
    if printable(text) == text:
        return quote(text)
    parts = [f"chr({ord(one)})" if is_unsafe(one) else quote(one) for one in text]
    return "(" + " || ".join(parts) + ")"
