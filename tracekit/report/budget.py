"""Limits on the size of a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Result
from tracekit.render.json import json_text

MAX_ROWS = 1_000
"""Maximum number of rows of a result in a page."""

MAX_BYTES = 250_000
"""Maximum number of characters of a result in a page, because names may be very long."""


class Cut(Struct, frozen=True):
    """The part of a result that a page shows."""

    shown: Result
    total: int

    def note(self, command: str) -> str:
        """Return a note on the omitted rows, or an empty string if no rows are omitted."""
        omitted = self.total - len(self.shown)
        if not omitted:
            return ""
        return f"{omitted:,} of {self.total:,} rows are omitted; to see all: {command}"


def cut(result: Result) -> Cut:
    """Return the rows of a result that fit: the first rows, or the rows that its header selects."""
    rows = result.rows
    view = load_catalog().analyses.views("page").get(result.name, {})
    most = int(view.get("rows", MAX_ROWS))
    if len(rows) > most and "largest" in view:
        place = result.column_names.index(view["largest"])
        least = sorted((row[place] for row in rows), reverse=True)[most]
        rows = [row for row in rows if row[place] > least]
    if len(rows) > most and "lines" in view:
        rows = _complete_lines(result, view["lines"].split(","), most)
    selected = []
    room = MAX_BYTES
    for row in rows[:most]:
        room -= sum(len(json_text(value)) + 1 for value in row)
        if room < 0:
            break
        selected.append(row)
    return Cut(Result(result.name, result.columns, selected), len(result.rows))


def _complete_lines(result: Result, of: Sequence[str], most: int) -> list[tuple[Any, ...]]:
    """Return the rows of the first chart lines that fit completely, but of at least one."""
    places = [result.column_names.index(name) for name in of]
    lines: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in result.rows:
        lines.setdefault(tuple(row[place] for place in places), []).append(row)
    selected: list[tuple[Any, ...]] = []
    for line in lines.values():
        if selected and len(selected) + len(line) > most:
            break
        selected += line
    return selected
