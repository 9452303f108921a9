"""Views of a trace, and the pages of their rows."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Result, picked
from tracekit.browse.query_worker import Answers
from tracekit.render._cells import TextColumn, text_columns
from tracekit.render._text import is_unsafe, printable
from tracekit.sql_text import quote

PAGE_ROWS = 200

Row = Mapping[str, Any]


class Page(Struct, frozen=True):
    """Rows of a view from number `first`, counted from 0.

    `total` is None if counting would require all rows; `note` is shown below the rows.
    """

    columns: list[TextColumn]
    rows: list[Row]
    first: int
    is_more: bool
    total: int | None = None
    note: str = ""


class View(Protocol):
    """A table with its title, definition, and the views that its rows open."""

    @property
    def title(self) -> str:
        """Title of the table, unescaped."""

    def page(self, answers: Answers, number: int, search: str) -> Page:
        """Return a page of the rows that match a search; pages are counted from 0."""

    def definition(self, traces: Sequence[str], search: str) -> str:
        """Return commands and SQL that return the same rows."""

    def deeper(self, row: Row) -> View | None:
        """Return the view that a row opens, if any."""


Deeper = Callable[[Row], View | None]


def shown(result: Result, names: Sequence[str]) -> list[TextColumn]:
    return text_columns(picked(result, names), units=True)


def cut(result: Result, names: Sequence[str], number: int) -> Page:
    """Return one page of a complete result, with the named columns; pages are counted from 0."""
    first = number * PAGE_ROWS
    rows = result.rows[first : first + PAGE_ROWS]
    part = Result(result.name, result.columns, rows)
    total = len(result.rows)
    return Page(shown(part, names), [*part.to_dicts()], first, first + len(rows) < total, total)


def holding(result: Result, search: str) -> Result:
    """Return the rows in which any string contains the search text, ignoring case."""
    if not search:
        return result
    wanted = search.lower()
    rows = [
        row
        for row in result.rows
        if any(isinstance(cell, str) and wanted in cell.lower() for cell in row)
    ]
    return Result(result.name, result.columns, rows)


class Asked(Struct, frozen=True):
    name: str
    params: Mapping[str, object] = field(default_factory=dict)

    def definition(self, traces: Sequence[str]) -> str:
        options = [
            word
            for name, value in self.params.items()
            for word in ("--" + name.replace("_", "-"), str(value))
        ]
        command = shlex.join(["tracekit", "query", self.name, *traces, *options])
        spec = load_catalog().analyses[self.name]
        return f"{command}\n\n{spec.sql.rstrip()}"


class AnalysisView(Struct, frozen=True):
    """Rows of an analysis: all rows, or only rows with certain values.

    `first` is the column that sorts the rows, and its values in that order.
    """

    title: str
    asked: Asked
    names: tuple[str, ...]
    where: Mapping[str, object] = field(default_factory=dict)
    lead: Deeper | None = None
    first: tuple[str, tuple[object, ...]] | None = None

    def page(self, answers: Answers, number: int, search: str) -> Page:
        result = answers.query(self.asked.name, **self.asked.params)
        places = [(result.column_names.index(name), value) for name, value in self.where.items()]
        rows = [row for row in result.rows if all(row[place] == value for place, value in places)]
        if self.first is not None:
            column, order = self.first
            place = result.column_names.index(column)
            rows.sort(key=lambda row: order.index(row[place]))
        result = holding(Result(result.name, result.columns, rows), search)
        return cut(result, self.names, number)

    def definition(self, traces: Sequence[str], search: str) -> str:
        notes = [f"{name} is {value}" for name, value in self.where.items()]
        notes += [f"any column contains {search!r}"] if search else []
        text = self.asked.definition(traces)
        return f"{text}\n\nShown rows: {', and '.join(notes)}" if notes else text

    def deeper(self, row: Row) -> View | None:
        return self.lead(row) if self.lead else None


class SqlView(Struct, frozen=True):
    """Rows of a statement, read page by page.

    Only columns in `names` are displayed; the others determine the view that a row opens.
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
        first = number * PAGE_ROWS
        limit = f"LIMIT {PAGE_ROWS + 1} OFFSET {first}"
        result = answers.sql(f"{self._statement(search)}\n{limit}")
        part = Result(self.title, result.columns, result.rows[:PAGE_ROWS])
        is_more = len(result.rows) > PAGE_ROWS
        return Page(shown(part, self.names), [*part.to_dicts()], first, is_more)

    def definition(self, traces: Sequence[str], search: str) -> str:
        command = shlex.join(["tracekit", "sql", *traces, "-"])
        # String literals in the statement have no line breaks; see literal_of().
        return f"{command} <<'SQL'\n{self._statement(search)}\nSQL"

    def deeper(self, row: Row) -> View | None:
        return self.lead(row) if self.lead else None


def literal_of(text: str) -> str:
    """Return a string as a printable SQL expression, so that the shown statement can be run.

    The screen escapes newlines and bidirectional marks, so they must not appear in the statement.
    """
    if printable(text) == text:
        return quote(text)
    parts = [f"chr({ord(one)})" if is_unsafe(one) else quote(one) for one in text]
    return "(" + " || ".join(parts) + ")"
