"""The page of runs: the paper's figures as pictures of ours, with what the paper says beside."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from tracekit.analysis.catalog import load_catalog
from tracekit.errors import QueryError, UsageError
from tracekit.paper.tables import find_table
from tracekit.plot import PARAMS, chart_module
from tracekit.render._text import printable
from tracekit.report.budget import Cut, cut
from tracekit.report.document import Content, document
from tracekit.report.page import command_of, figure, sources, table_head
from tracekit.report.paper_charts import paper_charts
from tracekit.report.run_sections import RUN_SECTIONS, RunSection

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.plot import Chart
    from tracekit.trace import Trace

PLATFORM = "A800"
"""The platform of the paper that is drawn, as most of its tables are of it."""

_WHAT = (
    "Figures of arXiv 2311.03687, of these runs, and what the paper says beside them. Setups "
    "differ: what differs, and so what may be compared, is said and marked row by row by"
)


def runs_page(runs: Trace, paths: Sequence[str]) -> str:
    """Return the page as HTML.

    Args:
        runs: run folders, opened; their traces are not needed.
        paths: how they were named, for title and commands.

    Raises:
        UsageError: the runs have nothing for any of the figures.
    """
    results = _gather(runs)
    cuts = {name: cut(result) for name, result in results.items()}
    shown = [one for one in RUN_SECTIONS if any(results.get(name) for name in one.tables)]
    if not any(one.charts for one in shown):
        raise UsageError(
            "the runs have nothing for a figure of the paper",
            hint="they are runs of training, of serving or of tracekit bench",
        )
    charts: dict[str, Chart] = {}
    named = " ".join(shlex.quote(printable(path)) for path in paths)
    title = ", ".join(printable(path) for path in paths[:3])
    body = [
        "<header>",
        '<button type="button" id="theme">light or dark</button>',
        f"<h1>{escape(title)}</h1>",
        f'<p class="what">{_WHAT} <code>tracekit paper table3 {escape(named)}</code></p>',
        '</header><nav aria-label="sections">',
        *(f'<a href="#{one.name}">{escape(one.title)}</a>' for one in shown),
        "</nav><main>",
    ]
    for one in shown:
        body += _section(one, cuts, charts, paths)
    body.append("</main>")
    used = {name for chart in charts.values() for name in chart.data}
    used |= {name for one in shown for name in (*one.tables, *map(_paper, one.published))}
    content = Content(charts, {name: cuts[name] for name in cuts if name in used})
    return document(f"tracekit · {title}", body, content)


def _gather(runs: Trace) -> dict[str, Result]:
    found = {}
    for name in dict.fromkeys(name for one in RUN_SECTIONS for name in one.tables):
        try:
            found[name] = runs.query(name, **PARAMS.get(name, {}))
        except (QueryError, UsageError):
            # There is no run of the kind that it is of.
            continue
    return found


def _paper(name: str) -> str:
    return f"paper_{name}"


def _section(
    one: RunSection, cuts: dict[str, Cut], charts: dict[str, Chart], paths: Sequence[str]
) -> Iterator[str]:
    spec = load_catalog().analysis(one.tables[0])
    yield f'<section id="{one.name}" aria-labelledby="{one.name}-title">'
    yield f'<h2 id="{one.name}-title">{escape(one.title)}</h2>'
    yield f'<p class="definition">{escape(spec.question)} {escape(spec.description)}</p>'
    ours = [*_ours(one, cuts)]
    paper = [*_of_paper(one, cuts)]
    charts |= {chart.name: chart for chart in (*ours, *paper)}
    yield '<div class="sides">'
    for chart in (*ours, *paper):
        yield figure(chart, is_side=chart in paper or chart.name in one.beside)
    yield "</div>"
    for name in one.tables:
        if name in cuts and cuts[name].total:
            yield from table_head(name, is_defined=name == one.tables[0])
            if note := cuts[name].note(command_of(name, paths)):
                yield f'<p class="note">{escape(note)}</p>'
            yield f'<div class="table" data-rows="{name}"></div>'
    for name in one.published:
        table = find_table(name)
        cuts[_paper(name)] = cut(table.to_result())
        yield f"<h3>The paper: {escape(table.title)} ({escape(table.source)})</h3>"
        yield f'<ul class="note">{"".join(f"<li>{escape(note)}</li>" for note in table.notes)}</ul>'
        yield f'<div class="table" data-rows="{_paper(name)}"></div>'
    yield from sources(one.name, [name for name in one.tables if name in cuts], paths)
    yield "</section>"


def _ours(one: RunSection, cuts: Mapping[str, Cut]) -> Iterator[Chart]:
    for name in one.charts:
        module = chart_module(name)
        if all(need in cuts for need in module.NEEDS):
            chart = module.chart({need: cuts[need].shown for need in module.NEEDS})
            if chart is not None:
                yield chart


def _of_paper(one: RunSection, cuts: dict[str, Cut]) -> Iterator[Chart]:
    for name in one.drawn:
        rows = find_table(name).to_result(PLATFORM)
        data = f"{_paper(name)}_{PLATFORM}"
        cuts[data] = cut(rows)
        source = find_table(name).source.rpartition(", ")[2]
        yield from paper_charts(rows, data, f"{source}, {PLATFORM}")
