"""The report of a trace: its sections, with places for what the program draws.

The page needs no network and may reach none: its content policy allows its own style and program,
by their digests, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING

from tracekit.analysis.breakdown import ADVICE
from tracekit.render._text import printable
from tracekit.render.sections import SECTIONS as TERMINAL_SECTIONS
from tracekit.report.answers import Answers
from tracekit.report.budget import Cut, cut
from tracekit.report.events import left_out, packed_events
from tracekit.report.parts import (
    Shown,
    charts_of,
    command_of,
    definition_of,
    figure,
    note,
    page_of,
    quoted,
    section_head,
    sides,
    sources,
    tables,
    tabs,
    verdict,
)
from tracekit.report.sections import SECTIONS, TIMELINE_EVENTS, Section
from tracekit.report.verdict import sentences

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.plot import Chart


def page(answers: Answers, traces: Sequence[str]) -> str:
    """Return the report as HTML."""
    cuts = {
        name: cut(result) for name, result in answers.results.items() if name != TIMELINE_EVENTS
    }
    shown = [
        _shown(section, answers, cuts, traces)
        for section in SECTIONS
        if any(answers.has_rows(name) for name in section.tables)
    ]
    has_events = any(one.name == "events" for one in shown)
    # There may be no such command here.
    has_viewer = find_spec("tracekit.cli.view") is not None
    names = [printable(name) for name in traces[:5]]
    return page_of(
        (", ".join(names[:3]), " ".join(names)),
        _head(answers, traces),
        shown,
        after=_refused(answers),
        events=packed_events(answers.results[TIMELINE_EVENTS]) if has_events else None,
        view_command=f"tracekit view {quoted(*traces)}" if has_viewer else None,
    )


def _head(answers: Answers, traces: Sequence[str]) -> Iterator[str]:
    lines = [
        line.plain
        for name in ("run", "trace")
        for line in TERMINAL_SECTIONS[name].lines(answers.results, 160)
    ]
    if lines:
        yield f'<p class="what">{escape(chr(10).join(lines))}</p>'
    said = sentences(answers.results.get("verdict"), answers.results.get("unrecorded"))
    if said:
        yield from verdict(said)
        command = escape(command_of("verdict", traces))
        yield f'<p class="note">Source: <code>{command}</code></p>'
    if ADVICE in answers.results:
        yield from _advice(answers.results[ADVICE], traces)


_MOST_ADVICE = 5


def _advice(advice: Result, traces: Sequence[str]) -> Iterator[str]:
    """Yield what to change, best first."""
    yield '<section id="advice" aria-labelledby="advice-title">'
    yield '<h2 id="advice-title">What to change</h2>'
    if advice.rows:
        yield "<ol>"
        for row in advice.to_dicts()[:_MOST_ADVICE]:
            gain = "{gain_pct:.1f} % ({low_pct:.1f} to {high_pct:.1f} %)".format(**row)
            told = escape(printable(f"{row['where']}: {row['what']}. {_sentence(row['remedy'])}"))
            yield f"<li><b>{gain}</b> {told}</li>"
        yield "</ol>"
    else:
        yield "<p>Nothing worth changing above 1 %.</p>"
    yield f'<p class="note">Source: <code>tracekit advise {escape(quoted(*traces))}</code></p>'
    yield "</section>"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _shown(
    section: Section, answers: Answers, cuts: Mapping[str, Cut], traces: Sequence[str]
) -> Shown:
    name = section.name
    asked = [table for table in section.tables if answers.has_rows(table)]
    lines = [*section_head(name, section.title, definition_of(asked[0]))]
    one = Shown(name, section.title, lines)
    if name == "events":
        lines += _events(answers)
    else:
        charts = [*charts_of(section.charts, cuts)]
        one.charts = {chart.name: chart for chart in charts}
        used = dict.fromkeys([*asked, *(need for chart in charts for need in chart.data)])
        one.data = {table: cuts[table] for table in used}
        lines += _charts(section, charts)
        lines += tables(asked, asked[0], cuts, traces)
    drawn = [table for table in section.drawn if table in answers.results]
    lines += sources(name, [*asked, *drawn], traces)
    lines.append("</section>")
    return one


def _charts(section: Section, charts: Sequence[Chart]) -> Iterator[str]:
    named = dict(zip(section.charts, section.tabs, strict=False))
    has_tabs = bool(named) and len(charts) > 1
    if has_tabs:
        yield from tabs({one.name: (named[one.name], f"chart-{one.name}") for one in charts})
    for is_side, group in groupby(charts, lambda chart: chart.name in section.beside):
        if is_side:
            yield from sides(group)
            continue
        for chart in group:
            panel = f' role="tabpanel" aria-labelledby="tab-{chart.name}"' if has_tabs else ""
            hidden = " hidden" if has_tabs and chart != charts[0] else ""
            yield f'<div id="chart-{chart.name}"{panel}{hidden}>'
            yield figure(chart)
            yield "</div>"


def _events(answers: Answers) -> Iterator[str]:
    counts = left_out(answers.results[TIMELINE_EVENTS])
    text = f"{counts['alone']:,} device events."
    if counts["in_tiles"]:
        text = (
            f"The {counts['alone']:,} longest device events; {counts['in_tiles']:,} shorter ones "
            f"are drawn as {counts['tiles']:,} tiles, which say how many they hold and how long "
            "those ran."
        )
    yield note(text)
    yield "<figure><figcaption>Every stream over time</figcaption>"
    yield '<div id="events-view"></div></figure>'


def _refused(answers: Answers) -> Iterator[str]:
    if not answers.refused:
        return
    yield '<section id="refused"><h2>What could not be answered</h2><ul>'
    for name, reason in answers.refused.items():
        yield f"<li>{escape(name)}: {escape(printable(reason))}</li>"
    yield "</ul></section>"
