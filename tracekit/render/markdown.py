"""Markdown tables in GitHub's dialect, to paste into an issue or a page.

Units are the same as in the terminal. Text that Markdown could interpret is formatted as code, with
`|` and control characters escaped. Without `full`, a table of a breakdown has at most 20 rows and a
note with the total.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TextIO

from tracekit.analysis.result import Result
from tracekit.render._cells import TextColumn, text_columns

_BREAKDOWN_ROWS = 20
# Text without Markdown syntax: letters of any script, digits, harmless punctuation, and underscores
# between letters, where they do not mark emphasis. Excludes text that GitHub turns into links.
_HARMLESS = re.compile(r"(?!.*www\.)(?:[^\W_]|(?<=[^\W_])_+(?=[^\W_])|[ .,;()/%+–…-])*+")
_BACKTICKS = re.compile(r"`+")


def render(
    data: Result | Mapping[str, Result],
    stream: TextIO,
    *,
    full: bool = False,
    units: bool = True,
    wide: bool = False,
) -> None:
    """Write a result as a Markdown table, or a breakdown as a table per heading."""
    del wide
    if not isinstance(data, Mapping):
        _table(data, stream, units)
        return
    for position, (name, result) in enumerate(data.items()):
        stream.write(f"{chr(10) if position else ''}## {_escaped(name)}\n\n")
        if full or len(result.rows) <= _BREAKDOWN_ROWS:
            _table(result, stream, units)
            continue
        _table(Result(result.name, result.columns, result.rows[:_BREAKDOWN_ROWS]), stream, units)
        stream.write(f"\n{len(result.rows) - _BREAKDOWN_ROWS:,} more rows (`--full` shows them)\n")


def _table(result: Result, stream: TextIO, units: bool) -> None:
    columns = text_columns(result, units=units)
    if not columns:
        return
    _line([_escaped(column.header) for column in columns], stream)
    _line(["---:" if column.is_number else "---" for column in columns], stream)
    for index in range(len(result.rows)):
        _line([_cell(column, index) for column in columns], stream)


def _line(cells: list[str], stream: TextIO) -> None:
    stream.write("| " + " | ".join(cells) + " |\n")


def _cell(column: TextColumn, index: int) -> str:
    cell = column.cells[index]
    return cell if column.is_number else _escaped(cell)


def _escaped(text: str) -> str:
    if _HARMLESS.fullmatch(text):
        return text
    # A code span ends at an equal run of backticks, so use a longer run than any in the text.
    fence = "`" * (max((len(run) for run in _BACKTICKS.findall(text)), default=0) + 1)
    padding = " " if text.startswith("`") or text.endswith("`") else ""
    body = text.replace("|", "\\|")
    return f"{fence}{padding}{body}{padding}{fence}"
