"""The page of runs: the paper's figures as pictures of ours, with what the paper says beside."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.analysis.catalog import load_catalog
from tracekit.errors import QueryError, UsageError
from tracekit.paper.tables import find_table
from tracekit.plot import PARAMS, chart_module
from tracekit.render._text import printable
from tracekit.report.budget import Cut, cut
from tracekit.report.decoder_figure import Decoder, decoder_chart, decoder_of, missing
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

_DECODER = (
    "How much of the time of the forward and the backward phase, busy and idle, the parts of the "
    "decoder layers took, on the first device of each run; recomputation stands apart and is left "
    "out. The paper has batch size 2 without and 32 with it, and its text states no numbers: when "
    "the batch grows, the shares do not change much. What tracekit query roles says of each run."
)


def runs_page(
    runs: Trace, paths: Sequence[str], roles_of: Callable[[str], Result] | None = None
) -> str:
    """Return the page as HTML.

    Args:
        runs: run folders, opened; their traces are not needed.
        paths: how they were named, for title and commands.
        roles_of: returns what analysis roles says of the traces of a run, by its folder; without
            it the page has no Figure 5, which is of traces.

    Raises:
        UsageError: the runs have nothing for any of the figures.
    """
    shown = sections_of(runs, paths, is_beside_paper=True)
    if not any(one.section.charts for one in shown):
        raise UsageError(
            "the runs have nothing for a figure of the paper",
            hint="they are runs of training, of serving or of tracekit bench",
        )
    if roles_of is not None and (decoder := decoder_of(runs, roles_of)) is not None:
        shown.insert(1, _decoder(decoder, paths))
    given = " ".join(shlex.quote(printable(path)) for path in paths)
    what = f'<p class="what">{_WHAT} <code>tracekit paper table3 {escape(given)}</code></p>'
    return page_of_runs(paths, [what], [], shown)


def named(run: str, paths: Sequence[str]) -> str:
    """Return how a command names a run: in the words of the user, where these lead to it.

    Args:
        run: its folder, an absolute path.
        paths: what the user named.
    """
    for path in paths:
        given = Path(path)
        if given.is_dir() and Path(run).is_relative_to(given.resolve()):
            return str(given.joinpath(Path(run).relative_to(given.resolve())))
    return run


def _decoder(decoder: Decoder, paths: Sequence[str]) -> ShownSection:
    """Return the section of Figure 5: the picture, or why there is none."""
    title = "Decoder layers with and without recomputation (Figure 5)"
    shown = ShownSection(RunSection("decoder", title, (), ()), title)
    rows = cut(decoder.rows)
    chart = decoder_chart(rows.shown)
    head = [
        '<section id="decoder" aria-labelledby="decoder-title">',
        f'<h2 id="decoder-title">{escape(title)}</h2>',
        f'<p class="definition">{escape(_DECODER)}</p>',
        *(f'<p class="note">{escape(printable(why))}</p>' for why in missing(decoder, chart)),
    ]
    shown.lines.extend(head)
    if chart is not None:
        shown.charts[chart.name] = chart
        shown.data[chart.name] = rows
        shown.lines.extend([figure(chart), f'<div class="table" data-rows="{chart.name}"></div>'])
    for folder in decoder.folders:
        run = shlex.quote(printable(named(folder, paths)))
        command = f"tracekit query roles {run} --format json"
        shown.lines.append(f"<p><code>{escape(command)}</code></p>")
    shown.lines.append("</section>")
    return shown


@dataclass(slots=True)
class ShownSection:
    """A section as it is written, and what its program draws."""

    section: RunSection
    title: str
    lines: list[str] = field(default_factory=list)
    charts: dict[str, Chart] = field(default_factory=dict)
    data: dict[str, Cut] = field(default_factory=dict)


def sections_of(runs: Trace, paths: Sequence[str], *, is_beside_paper: bool) -> list[ShownSection]:
    """Return the sections for which runs have rows.

    Args:
        runs: run folders, opened.
        paths: how they were named, for commands.
        is_beside_paper: with the tables and pictures of the paper.
    """
    cuts = {name: cut(result) for name, result in _gather(runs).items()}
    found = []
    for section in RUN_SECTIONS:
        if not any(name in cuts and cuts[name].total for name in section.tables):
            continue
        title = section.title
        if not is_beside_paper:
            section = replace(section, published=(), drawn=())
        elif section.of_paper:
            title = f"{title} ({section.of_paper})"
        one = ShownSection(section, title)
        one.data |= {name: cuts[name] for name in section.tables if name in cuts}
        one.lines.extend(_section(one, paths))
        found.append(one)
    return found


def page_of_runs(
    paths: Sequence[str],
    head: Sequence[str],
    ways: Sequence[str],
    shown: Sequence[ShownSection],
) -> str:
    """Return a page of runs as HTML.

    Args:
        paths: how they were named, for the title.
        head: lines below the title.
        ways: lines of a section, called each, before all others.
        shown: the sections.
    """
    title = ", ".join(printable(path) for path in paths[:3])
    body = [
        "<header>",
        '<button type="button" id="theme">light or dark</button>',
        f"<h1>{escape(title)}</h1>",
        *head,
        '</header><nav aria-label="sections">',
        *(['<a href="#each">Each run</a>'] if ways else []),
        *(f'<a href="#{one.section.name}">{escape(one.title)}</a>' for one in shown),
        "</nav><main>",
        *ways,
        *(line for one in shown for line in one.lines),
        "</main>",
    ]
    charts = {name: chart for one in shown for name, chart in one.charts.items()}
    data = {name: rows for one in shown for name, rows in one.data.items()}
    return document(f"tracekit · {title}", body, Content(charts, data))


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


def _section(shown: ShownSection, paths: Sequence[str]) -> Iterator[str]:
    one, cuts = shown.section, shown.data
    spec = load_catalog().analysis(one.tables[0])
    yield f'<section id="{one.name}" aria-labelledby="{one.name}-title">'
    yield f'<h2 id="{one.name}-title">{escape(shown.title)}</h2>'
    yield f'<p class="definition">{escape(spec.question)} {escape(spec.description)}</p>'
    ours = [*_ours(one, cuts)]
    paper = [*_of_paper(one, cuts)]
    shown.charts |= {chart.name: chart for chart in (*ours, *paper)}
    yield '<div class="sides">'
    for chart in (*ours, *paper):
        yield figure(chart, is_side=chart in paper or chart.name in one.beside)
    yield "</div>"
    tables = [name for name in one.tables if name in cuts]
    for name in tables:
        if not cuts[name].total:
            continue
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
    yield from sources(one.name, tables, paths)
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
