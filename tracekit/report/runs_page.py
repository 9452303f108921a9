"""Page of runs: figures of arXiv 2311.03687, drawn for the user's runs, and the published ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from msgspec.structs import replace

from tracekit.analysis.result import Result
from tracekit.errors import QueryError, UsageError
from tracekit.paper.tables import find_table
from tracekit.plot import PARAMS, Chart
from tracekit.render._text import printable
from tracekit.report.budget import Cut, cut
from tracekit.report.paper_figures import Decoder, decoder_chart, decoder_of, missing, paper_charts
from tracekit.report.parts import (
    Shown,
    charts_of,
    definition_of,
    figure,
    note,
    page_of,
    quoted,
    rows_of,
    section_head,
    sources,
    tables,
)
from tracekit.report.sections import RUN_SECTIONS, Section
from tracekit.trace import Trace

PLATFORM = "A800"
"""Platform of the paper's numbers in charts; most of its tables include it."""

_WHAT = (
    "Figures of arXiv 2311.03687 for these runs, with the values of the paper. Setups differ; the "
    "differences, and the rows that are comparable, are shown by"
)

_DECODER = (
    "Shares of the parts of decoder layers in the busy and idle time of the forward and backward "
    "phase, on the first device of each run, without recomputation. The paper uses batch size 2 "
    "without and 32 with recomputation and gives no numbers; shares change little with the batch "
    "size. Source: tracekit query roles for each run."
)


def runs_page(
    runs: Trace, paths: Sequence[str], roles_of: Callable[[str], Result] | None = None
) -> str:
    """Return the page as HTML.

    Args:
        runs: opened run folders. Their traces need not be read.
        paths: their names as the user wrote them, for title and commands.
        roles_of: returns the rows of analysis roles for the traces of a run folder. Without it, the
            page has no Figure 5.
    """
    shown = sections_of(runs, paths, has_paper=True)
    if all(one.name == "runs" for one in shown):
        raise UsageError(
            "the runs have no data for a figure of the paper",
            hint="pass runs of training, serving, or tracekit bench",
        )
    if roles_of is not None and (decoder := decoder_of(runs, roles_of)) is not None:
        shown.insert(1, _decoder(decoder, paths))
    command = escape(f"tracekit compare paper table3 {quoted(*paths)}")
    what = f'<p class="what">{_WHAT} <code>{command}</code></p>'
    title = ", ".join(printable(path) for path in paths[:3])
    return page_of((title, title), [what], shown)


def named(run: str, paths: Sequence[str]) -> str:
    """Return the name of a run in commands: as the user wrote it, if possible."""
    for path in paths:
        source = Path(path)
        if source.is_dir() and Path(run).is_relative_to(source.resolve()):
            return str(source.joinpath(Path(run).relative_to(source.resolve())))
    return run


def _decoder(decoder: Decoder, paths: Sequence[str]) -> Shown:
    """Return the section of Figure 5: the chart, or the reason why it is missing."""
    title = "Decoder layers with and without recomputation (Figure 5)"
    rows = cut(decoder.rows)
    chart = decoder_chart(rows.shown)
    lines = [*section_head("decoder", title, _DECODER)]
    lines += [note(printable(why)) for why in missing(decoder, chart)]
    shown = Shown("decoder", title, lines)
    if chart is not None:
        shown.charts[chart.name] = chart
        shown.data[chart.name] = rows
        lines += [figure(chart), rows_of(chart.name)]
    for folder in decoder.folders:
        command = f"tracekit query roles {quoted(named(folder, paths))} --format json"
        lines.append(f"<p><code>{escape(command)}</code></p>")
    lines.append("</section>")
    return shown


def sections_of(runs: Trace, paths: Sequence[str], *, has_paper: bool) -> list[Shown]:
    """Return the sections for which the runs have rows."""
    cuts: dict[str, Cut] = {}
    for name in dict.fromkeys(name for one in RUN_SECTIONS for name in one.tables):
        try:
            cuts[name] = cut(runs.query(name, **PARAMS.get(name, {})))
        except (QueryError, UsageError):
            # No run has data for the section.
            continue
    results = []
    for section in RUN_SECTIONS:
        if not any(name in cuts and cuts[name].total for name in section.tables):
            continue
        if not has_paper:
            section = replace(section, published=(), pictured=())
        elif section.of_paper:
            section = replace(section, title=f"{section.title} ({section.of_paper})")
        one = Shown(section.name, section.title)
        one.data = {name: cuts[name] for name in section.tables if name in cuts}
        one.lines.extend(_section(section, one, paths))
        results.append(one)
    return results


def _section(section: Section, shown: Shown, paths: Sequence[str]) -> Iterator[str]:
    cuts = shown.data
    yield from section_head(section.name, section.title, definition_of(section.tables[0]))
    analyses = [*cuts]
    ours = [*charts_of(section.charts, cuts)]
    paper = [*_of_paper(section, cuts)]
    shown.charts = {chart.name: chart for chart in (*ours, *paper)}
    yield '<div class="sides">'
    for chart in (*ours, *paper):
        yield figure(chart, is_side=chart in paper or chart.name in section.half_width)
    yield "</div>"
    names = [name for name in analyses if cuts[name].total]
    yield from tables(names, section.tables[0], cuts, paths)
    for name in section.published:
        table = find_table(name)
        cuts[_paper(name)] = cut(table.to_result())
        yield f"<h3>The paper: {escape(table.title)} ({escape(table.source)})</h3>"
        yield f'<ul class="note">{"".join(f"<li>{escape(one)}</li>" for one in table.notes)}</ul>'
        yield rows_of(_paper(name))
    yield from sources(section.name, analyses, paths)
    yield "</section>"


def _paper(name: str) -> str:
    return f"paper_{name}"


def _of_paper(section: Section, cuts: dict[str, Cut]) -> Iterator[Chart]:
    for name in section.pictured:
        rows = find_table(name).to_result(PLATFORM)
        data = f"{_paper(name)}_{PLATFORM}"
        cuts[data] = cut(rows)
        source = find_table(name).source.rpartition(", ")[2]
        yield from paper_charts(rows, data, f"{source}, {PLATFORM}")
