"""Results and traces as HTML for notebooks, which call `_repr_html_`.

Text from a trace is escaped, because notebooks render the HTML. The number of rows is limited,
because notebooks store their output. A note states how many are omitted.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from tracekit.analysis.result import Result, picked
from tracekit.errors import TracekitError
from tracekit.render._cells import text_columns
from tracekit.render._grid import grid_lines
from tracekit.render._text import printable, truncate
from tracekit.render.sections import SECTIONS

if TYPE_CHECKING:
    from tracekit.trace import Trace

MAX_ROWS = 20
"""Maximum number of displayed rows of a result."""

# Prevents notebooks from rendering text between two dollar signs as a formula.
_NO_FORMULAS = 'class="tex2jax_ignore mathjax_ignore"'
_MAX_CELL = 120
_WIDTH = 100
# Columns that distinguish several runs.
_RUN_COLUMNS = ("run", "stage", "model", "opt", "engine", "world_size", "batch_size", "outcome")


def result_html(result: Result) -> str:
    """Return the first rows of a result as an HTML table, with the number of remaining rows."""
    shown = Result(result.name, result.columns, result.rows[:MAX_ROWS])
    columns = text_columns(shown, units=result.name != "sql")
    sides = ["right" if column.is_number else "left" for column in columns]
    head = "".join(
        f'<th style="text-align:{side}">{escape(column.header)}</th>'
        for column, side in zip(columns, sides, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(
            f'<td style="text-align:{side}">{escape(truncate(column.cells[index], _MAX_CELL))}</td>'
            for column, side in zip(columns, sides, strict=True)
        )
        + "</tr>"
        for index in range(len(shown.rows))
    )
    caption = (
        f"{escape(truncate(printable(result.name), _MAX_CELL))}: {_how_many(len(result.rows))}"
    )
    return (
        f"<table {_NO_FORMULAS}>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>\n"
        f"<p {_NO_FORMULAS}>{caption}</p>"
    )


def result_text(result: Result) -> str:
    """Return the first rows of a result as a text table, with the number of remaining rows."""
    shown = Result(result.name, result.columns, result.rows[:MAX_ROWS], result.keep)
    lines = grid_lines(shown, None, units=result.name != "sql")
    text = [line.plain.rstrip() for line in lines]
    count = len(result.rows)
    return "\n".join([*text, _how_many(count)] if count > MAX_ROWS or not count else text)


def _how_many(count: int) -> str:
    if count > MAX_ROWS:
        return f"the first {MAX_ROWS} of {count:,} rows, {count - MAX_ROWS:,} are not shown"
    return "1 row" if count == 1 else f"{count:,} rows"


def trace_html(opened: Trace) -> str:
    """Return a summary of a trace: files, ranks, time of each device, and data quality."""
    try:
        _ = opened.connection
    except TracekitError as error:
        return f"<p>{escape(error.message)}</p>"
    names = ("run", "trace", "trace_totals", "timeline", "health")
    data = {name: result for name in names if (result := _result_of(opened, name))}
    runs = data.get("run")
    if runs is not None and len(runs) > 1 and "trace" not in data:
        columns = [name for name in _RUN_COLUMNS if name in runs.column_names]
        return result_html(picked(runs, columns))
    shown = ("run", "trace", "timeline", "health")
    lines = [line for name in shown for line in SECTIONS[name].lines(data, _WIDTH)]
    text = "\n".join(line.plain.rstrip() for line in lines)
    return f"<pre {_NO_FORMULAS}>{escape(text)}</pre>"


def _result_of(opened: Trace, name: str) -> Result | None:
    """Return the result of an analysis, or None if the trace has no data for it."""
    try:
        return opened.query(name) or None
    except TracekitError:
        return None
