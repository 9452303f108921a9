"""A page about several runs over time: a chart per measure, with its changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

from msgspec.structs import replace

from tracekit.analysis.result import Result
from tracekit.palette import BLUE, VERMILLION
from tracekit.plot import Chart
from tracekit.plot._encoding import bars, colours, fixed, names
from tracekit.render._text import printable
from tracekit.render.sections.comparison import HISTORY_NAMES, change_sentence
from tracekit.report.budget import Cut, cut
from tracekit.report.parts import (
    Shown,
    copied,
    figure,
    page_of,
    quoted,
    rows_of,
    section_head,
    verdict,
)
from tracekit.report.verdict import capitalized

_DEFINITION = (
    "Each row is a run, with medians over its steps. Runs are sorted by date if all dates are "
    "known. A change is a difference from earlier runs that exceeds the variation between runs. "
    "With fewer than five runs, steps are compared instead, which ignores this variation. Colors "
    "change at each change."
)


def history_page(results: Mapping[str, Result], runs: Sequence[str]) -> str:
    """Return the page as HTML. `results` are the tables of `tracekit check history`."""
    changes = results["history_changes"].to_dicts()
    sentences = [f"{capitalized(change_sentence(row))}." for row in changes]
    sentences = sentences or ["No figure changed beyond its noise."]
    drawn = [*_charts(results["history"], changes)]
    cuts = {name: cut(result) for name, result in results.items()}
    data = cuts | {
        chart.name: Cut(rows, len(rows)) for chart in drawn for rows in chart.data.values()
    }
    shown = Shown(
        "history", "", [*_lines(drawn, runs)], {chart.name: chart for chart in drawn}, data
    )
    title = f"{len(results['history']):,} runs over time"
    return page_of((title, title), verdict(sentences), [shown], has_contents=False)


def _lines(drawn: Sequence[Chart], runs: Sequence[str]) -> Iterator[str]:
    yield from section_head("history", "Runs over time", _DEFINITION)
    yield from map(figure, drawn)
    yield rows_of("history")
    yield rows_of("history_changes")
    command = f"tracekit check history {quoted(*runs)} --format json"
    yield f"<p>{copied('command-history', command)}</p>"
    yield "</section>"


def _charts(result: Result, changes: Sequence[Mapping[str, object]]) -> Iterator[Chart]:
    """Yield a bar chart for each measure of two or more runs.

    The bar color switches at each detected change of the measure.
    """
    for measure, title in HISTORY_NAMES.items():
        rows = [row for row in result.to_dicts() if row[measure] is not None]
        if len(rows) < 2 or not any(row[measure] for row in rows):
            continue
        begins = {row["run"] for row in changes if row["measure"] == measure}
        shown, since = [], ""
        for row in rows:
            if row["run"] in begins or not since:
                since = f"from {printable(row['run'])} on"
            shown.append({"run": printable(row["run"]), measure: row[measure], "since": since})
        of = dict.fromkeys(row["since"] for row in shown)
        colour = fixed(BLUE)
        if len(of) > 1:
            colour = colours("since", dict(zip(of, cycle((BLUE, VERMILLION)), strict=False)))
        name = f"history_{measure}"
        axis = (measure, measure, title)
        drawing = bars(title, shown, y=names("run"), x=axis, colour=colour, tip=("run", measure))
        assert drawing is not None
        columns = [column for column in result.columns if column.name in ("run", measure)]
        data = Result(
            name,
            (*columns, replace(columns[0], name="since")),
            [tuple(row.values()) for row in shown],
        )
        yield Chart(name, drawing.title, {"data": {"name": name}, **drawing.spec}, {name: data})
