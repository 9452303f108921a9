"""The report of a trace: its sections as HTML, with places for what the program draws.

The page needs no network and may reach none: its content policy allows its own style and program,
by their digests, and nothing else. Whatever comes from a trace is escaped here, or put into the
page by the program as text.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING

from tracekit.analysis.catalog import load_catalog
from tracekit.plot import PARAMS, chart_module
from tracekit.render._text import printable
from tracekit.render.sections import run as run_section
from tracekit.render.sections import trace as trace_section
from tracekit.report.answers import Answers
from tracekit.report.budget import Cut, cut
from tracekit.report.document import Content, document
from tracekit.report.events import left_out, packed_events
from tracekit.report.sections import SECTIONS, TIMELINE_EVENTS, Section
from tracekit.report.verdict import sentences

if TYPE_CHECKING:
    from tracekit.plot import Chart


@dataclass(frozen=True, slots=True)
class _Shown:
    """A section with what of it there is to show."""

    section: Section
    charts: tuple[Chart, ...]
    tables: tuple[str, ...]


def page(answers: Answers, traces: Sequence[str]) -> str:
    """Return the report as HTML.

    Args:
        answers: the results.
        traces: how the traces were named, for the commands that the page shows.
    """
    cuts = {
        name: cut(result) for name, result in answers.results.items() if name != TIMELINE_EVENTS
    }
    shown = [*_shown(answers, cuts)]
    used = {table for section in shown for table in section.tables}
    used |= {name for section in shown for chart in section.charts for name in chart.data}
    data = {name: cuts[name] for name in cuts if name in used}
    title = f"tracekit · {', '.join(printable(name) for name in traces[:3])}"
    lines = [
        *_head(answers, traces),
        *_contents(shown),
        "<main>",
        *(line for one in shown for line in _section(one, answers, cuts, traces)),
        *_refused(answers),
        "</main>",
    ]
    has_events = any(one.section.name == "events" for one in shown)
    content = Content(
        charts={chart.name: chart for section in shown for chart in section.charts},
        data=data,
        events=packed_events(answers.results[TIMELINE_EVENTS]) if has_events else None,
        view_command=_view_command(traces),
    )
    return document(title, lines, content)


def _shown(answers: Answers, cuts: Mapping[str, Cut]) -> Iterator[_Shown]:
    for section in SECTIONS:
        tables = tuple(name for name in section.tables if answers.has_rows(name))
        if not tables:
            continue
        charts = []
        for name in section.charts:
            module = chart_module(name)
            if all(need in cuts for need in module.NEEDS):
                chart = module.chart({need: cuts[need].shown for need in module.NEEDS})
                if chart is not None:
                    charts.append(chart)
        yield _Shown(section, tuple(charts), tables)


def _head(answers: Answers, traces: Sequence[str]) -> Iterator[str]:
    yield "<header>"
    yield '<button type="button" id="theme">light or dark</button>'
    yield f"<h1>{escape(' '.join(printable(name) for name in traces[:5]))}</h1>"
    lines = [
        line.plain
        for section in (run_section, trace_section)
        for line in section.lines(answers.results, 160, full=False)
    ]
    if lines:
        yield f'<p class="what">{escape(chr(10).join(lines))}</p>'
    said = sentences(answers.results.get("verdict"), answers.results.get("unrecorded"))
    if said:
        yield '<ul class="verdict" id="verdict">'
        yield from (f"<li>{escape(sentence)}</li>" for sentence in said)
        yield "</ul>"
        command = escape(command_of("verdict", traces))
        yield f'<p class="note">The sentences say what <code>{command}</code> finds.</p>'
    yield "</header>"


def _contents(shown: Sequence[_Shown]) -> Iterator[str]:
    yield '<nav aria-label="sections">'
    for one in shown:
        yield f'<a href="#{one.section.name}">{escape(one.section.title)}</a>'
    yield "</nav>"


def _section(
    one: _Shown, answers: Answers, cuts: Mapping[str, Cut], traces: Sequence[str]
) -> Iterator[str]:
    name = one.section.name
    yield f'<section id="{name}" aria-labelledby="{name}-title">'
    yield f'<h2 id="{name}-title">{escape(one.section.title)}</h2>'
    spec = load_catalog().analysis(one.tables[0])
    yield f'<p class="definition">{escape(spec.question)} {escape(spec.description)}</p>'
    if name == "events":
        yield from _events(answers)
    else:
        yield from _charts(one)
        for table in one.tables:
            yield from table_head(table, is_defined=table == one.tables[0])
            if note := cuts[table].note(command_of(table, traces)):
                yield f'<p class="note">{escape(note)}</p>'
            yield f'<div class="table" data-rows="{table}"></div>'
    drawn = tuple(table for table in one.section.drawn if table in answers.results)
    yield from sources(name, (*one.tables, *drawn), traces)
    yield "</section>"


def table_head(name: str, *, is_defined: bool) -> Iterator[str]:
    """Return what stands above the table of an analysis: what it answers, and what that means.

    Args:
        name: of the analysis.
        is_defined: its section has said that already.
    """
    spec = load_catalog().analysis(name)
    yield f"<h3>{escape(spec.question)}</h3>"
    if not is_defined and spec.description:
        yield f'<p class="definition">{escape(spec.description)}</p>'


def _charts(one: _Shown) -> Iterator[str]:
    named = dict(zip(one.section.charts, one.section.tabs, strict=False))
    has_tabs = bool(named) and len(one.charts) > 1
    if has_tabs:
        yield '<div class="tabs" role="tablist">'
        for place, chart in enumerate(one.charts):
            yield (
                f'<button type="button" role="tab" id="tab-{chart.name}" '
                f'aria-controls="chart-{chart.name}" aria-selected="{str(place == 0).lower()}" '
                f'tabindex="{-1 if place else 0}">{escape(named[chart.name])}</button>'
            )
        yield "</div>"
    for is_side, group in groupby(one.charts, lambda chart: chart.name in one.section.beside):
        if is_side:
            yield '<div class="sides">'
            yield from (figure(chart, is_side=True) for chart in group)
            yield "</div>"
            continue
        for chart in group:
            panel = f' role="tabpanel" aria-labelledby="tab-{chart.name}"' if has_tabs else ""
            hidden = " hidden" if has_tabs and chart != one.charts[0] else ""
            yield f'<div id="chart-{chart.name}"{panel}{hidden}>'
            yield figure(chart)
            yield "</div>"


def figure(chart: Chart, *, is_side: bool = False) -> str:
    """Return the place of a chart; with `is_side` it is half as wide."""
    title = escape(f"{chart.title} ({chart.omitted})" if chart.omitted else chart.title)
    side = ' class="side"' if is_side else ""
    return f'<figure{side} data-chart="{chart.name}"><figcaption>{title}</figcaption></figure>'


def _events(answers: Answers) -> Iterator[str]:
    counts = left_out(answers.results[TIMELINE_EVENTS])
    note = f"{counts['alone']:,} device events."
    if counts["in_tiles"]:
        note = (
            f"The {counts['alone']:,} longest device events; {counts['in_tiles']:,} shorter ones "
            f"are drawn as {counts['tiles']:,} tiles, which say how many they hold and how long "
            "those ran."
        )
    yield f'<p class="note">{escape(note)}</p>'
    yield "<figure><figcaption>Every stream over time</figcaption>"
    yield '<div id="events-view"></div></figure>'


def sources(name: str, tables: Sequence[str], traces: Sequence[str]) -> Iterator[str]:
    """Return the part of a section that says which commands and which SQL give the same.

    Args:
        name: of the section.
        tables: the analyses.
        traces: how the traces or runs were named.
    """
    yield "<details><summary>The commands and the SQL that give the same</summary>"
    for table in tables:
        spec = load_catalog().analysis(table)
        code = f"command-{name}-{table}"
        yield f'<p><code id="{code}">{escape(command_of(table, traces))}</code> '
        yield f'<button type="button" data-copy="{code}">copy</button></p>'
        yield f"<details><summary>{escape(spec.subject)}/{table}.sql</summary>"
        yield f"<pre><code>{escape(spec.sql)}</code></pre></details>"
    yield "</details>"


def _refused(answers: Answers) -> Iterator[str]:
    if not answers.refused:
        return
    yield '<section id="refused"><h2>What could not be answered</h2><ul>'
    for name, reason in answers.refused.items():
        yield f"<li>{escape(name)}: {escape(printable(reason))}</li>"
    yield "</ul></section>"


def command_of(analysis: str, traces: Sequence[str]) -> str:
    """Return the command that gives what a page shows of an analysis."""
    asked = "".join(f" --{name} {value}" for name, value in PARAMS.get(analysis, {}).items())
    return f"tracekit query {analysis} {_named(traces)}{asked} --format json"


def _named(traces: Sequence[str]) -> str:
    return " ".join(shlex.quote(printable(name)) for name in traces)


def _view_command(traces: Sequence[str]) -> str | None:
    """Return the command that opens the trace in Perfetto; None where there is no such command."""
    if find_spec("tracekit.cli.view") is None:
        return None
    return f"tracekit view {_named(traces)}"
