"""The report of a trace: its results, and sections with placeholders for charts and tables.

The page needs no network. Its content security policy allows only its own style and script, by
their digests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby

from msgspec import Struct, field

from tracekit.analysis.breakdown import ADVICE, MFU, ROLES, RUN_IDLE, TOTALS, is_small
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Result
from tracekit.errors import QueryError, UsageError
from tracekit.plot import PARAMS, Chart
from tracekit.render._text import printable
from tracekit.render.sections import SECTIONS as TERMINAL_SECTIONS
from tracekit.render.sections.device_time import step_of
from tracekit.report.budget import Cut, cut
from tracekit.report.events import event_counts, packed_events
from tracekit.report.first_screen import badge, step_bar, suggestions, tiles
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
from tracekit.report.sections import SECTIONS, TIMELINE_EVENTS, TIMELINE_HOST, Section
from tracekit.report.verdict import sentences
from tracekit.trace import Trace


class Answers(Struct):
    """Results by analysis, reasons for missing results, and the complete critical path."""

    results: dict[str, Result]
    refused: dict[str, str] = field(default_factory=dict)
    path: Result | None = None

    def has_rows(self, name: str) -> bool:
        """Return whether an analysis was run and returned rows."""
        return bool(self.results.get(name))


def gather(trace: Trace) -> Answers:
    """Run all analyses that a report shows."""
    answers = Answers(dict(trace.breakdown()))
    results = answers.results
    catalog = load_catalog()
    specs = [catalog.analysis(name) for name in _wanted(results)]
    _ask(trace, [spec.name for spec in specs], answers)
    if "path_totals" in results:
        results[ADVICE] = trace.advise().as_result()
    answers.path = results.get("critical_path")
    for name in PARAMS.keys() & results.keys():
        results[name] = trace.query(name, **PARAMS[name])
    return answers


def _wanted(results: Mapping[str, Result]) -> Iterator[str]:
    """Yield the analyses of applicable sections that a breakdown lacks."""
    catalog = load_catalog()
    is_served = "throughput" in results
    has_traces = "timeline" in results
    phases = results["phases"].column("phase") if has_traces else ()
    has_serving_phases = not {"prefill", "decode", "mixed", "verify"}.isdisjoint(phases)
    is_several = has_traces and (len(results["trace"]) > 1 or len(results["timeline"]) > 1)
    applies = {
        "traces": has_traces,
        "ranks": is_several,
        "serving": has_traces and (is_served or has_serving_phases),
        "graph": has_traces and is_small(results["timeline"]),
    }
    if has_traces:
        yield "verdict"
        if results.get(RUN_IDLE):
            yield MFU
    for section in SECTIONS:
        for name in (*section.tables, *section.drawn):
            # Without recorded modules, a breakdown already includes roles.
            if name in results or name == ROLES or (name in section.of_ranks and not is_several):
                continue
            if is_served if catalog.analysis(name).scope == "runs" else applies[section.of]:
                yield name


def _ask(trace: Trace, names: Sequence[str], answers: Answers) -> None:
    """Run analyses two at a time. If one fails, run all sequentially to get the reasons."""
    try:
        answers.results |= trace.results(names)
    except (QueryError, UsageError):
        for name in names:
            try:
                answers.results[name] = trace.query(name)
            except (QueryError, UsageError) as error:
                answers.refused[name] = error.message


def page(answers: Answers, traces: Sequence[str]) -> str:
    """Return the report as HTML."""
    cuts = {
        name: cut(result)
        for name, result in answers.results.items()
        if name not in (TIMELINE_EVENTS, TIMELINE_HOST)
    }
    shown = [
        _shown(section, answers, cuts, traces)
        for section in _in_order(answers)
        if any(answers.has_rows(name) for name in section.tables)
    ]
    has_events = any(one.name == "events" for one in shown)
    title = _title(answers, traces)
    return page_of(
        (title, title),
        _head(answers, traces, shown),
        shown,
        after=_refused(answers),
        events=packed_events(
            answers.results[TIMELINE_EVENTS], answers.path, answers.results.get(TIMELINE_HOST)
        )
        if has_events
        else None,
        view_command=f"tracekit view {quoted(*traces)}",
    )


def _in_order(answers: Answers) -> list[Section]:
    """Return the sections. Sections about requests come first if there are any."""
    first = {"serving"} if answers.has_rows("requests") else set()
    return sorted(SECTIONS, key=lambda section: section.name not in first)


def _title(answers: Answers, traces: Sequence[str]) -> str:
    """Return the names of the runs, or else of the files."""
    runs = answers.results["run"].column("run") if answers.has_rows("run") else ()
    names = [str(run) for run in runs if run] or [
        re.split(r"[\\/]", name.rstrip("\\/"))[-1] or name for name in traces
    ]
    return ", ".join(map(printable, names[:3])) + (", …" if len(names) > 3 else "")


def _head(answers: Answers, traces: Sequence[str], shown: Sequence[Shown]) -> Iterator[str]:
    for names, start, end in (
        (("run", "trace"), '<p class="what">', "</p>"),
        (("throughput", "latency"), "<pre>", "</pre>"),
    ):
        lines = [
            line.plain
            for name in names
            for line in TERMINAL_SECTIONS[name].lines(answers.results, 160)
        ]
        if lines:
            yield f"{start}{escape(chr(10).join(lines))}{end}"
    yield from tiles(answers.results)
    yield from step_bar(answers.results)
    if ADVICE in answers.results and answers.has_rows("timeline"):
        yield from suggestions(answers.results, f"tracekit advise {quoted(*traces)}")
    yield from badge(answers.results)
    verdicts, unrecorded = (answers.results.get(name) for name in ("verdict", "unrecorded"))
    classes = answers.results.get("kernel_class_totals")
    verdict_sentences = sentences(verdicts, unrecorded, step_of(answers.results), classes)
    if verdict_sentences:
        yield from verdict(verdict_sentences)
        command = escape(command_of("verdict", traces))
        yield f'<p class="note">Source: <code>{command}</code></p>'
    yield from (figure(one.charts[_OVERVIEW]) for one in shown if _OVERVIEW in one.charts)


_OVERVIEW = "timeline"
"""The chart in the overview."""


def _shown(
    section: Section, answers: Answers, cuts: Mapping[str, Cut], traces: Sequence[str]
) -> Shown:
    name = section.name
    analyses = [table for table in section.tables if answers.has_rows(table)]
    if "timeline" in answers.results and len(answers.results["timeline"]) == 1:
        analyses = [table for table in analyses if not _is_repeated(table, analyses)]
    lines = [*section_head(name, section.title, definition_of(analyses[0]))]
    one = Shown(name, section.title, lines)
    if name == "events":
        lines += _events(answers)
    else:
        results = [*charts_of(section.charts, cuts)]
        charts = [chart for chart in results if not _is_point(chart)]
        one.charts = {chart.name: chart for chart in charts}
        used = dict.fromkeys([*analyses, *(need for chart in charts for need in chart.data)])
        one.data = {table: cuts[table] for table in used}
        lines += _charts(section, [chart for chart in charts if chart.name != _OVERVIEW])
        lines += [
            note(f"{chart.title}: one or two points; see the table.")
            for chart in results
            if _is_point(chart)
        ]
        lines += tables(analyses, analyses[0], cuts, traces)
    drawn = [table for table in section.drawn if table in answers.results]
    lines += sources(name, [*analyses, *drawn], traces)
    lines.append("</section>")
    return one


def _is_repeated(table: str, shown: Sequence[str]) -> bool:
    """Return whether a table repeats another table because there is only one device."""
    if table in ("steps", "step_totals"):
        return table == "step_totals" and "steps" in shown
    return TOTALS.get(table) in shown


def _is_point(chart: Chart) -> bool:
    """Return whether a chart has at most two points, or only points at one x value."""
    mark, x = chart.spec.get("mark"), chart.spec.get("encoding", {}).get("x", {}).get("field")
    if not isinstance(mark, dict) or mark["type"] not in ("line", "point") or not x:
        return False
    of_axis = [rows.column(x) for rows in chart.data.values() if x in rows.column_names]
    points = [value for column in of_axis for value in column if value is not None]
    return len(points) <= 2 or len(set(points)) == 1


def _charts(section: Section, charts: Sequence[Chart]) -> Iterator[str]:
    named = dict(zip(section.charts, section.tabs, strict=False))
    has_tabs = bool(named) and len(charts) > 1
    if has_tabs:
        yield from tabs({one.name: (named[one.name], f"chart-{one.name}") for one in charts})
    for is_side, group in groupby(charts, lambda chart: chart.name in section.half_width):
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
    counts = event_counts(answers.results[TIMELINE_EVENTS])
    text = f"{counts['alone']:,} device event{'' if counts['alone'] == 1 else 's'}."
    if counts["in_tiles"]:
        text = (
            f"The {counts['alone']:,} longest device events. {counts['in_tiles']:,} shorter events "
            f"are combined into {counts['tiles']:,} tiles, which show their number and total "
            "duration."
        )
    if answers.has_rows(TIMELINE_HOST):
        host = answers.results[TIMELINE_HOST]
        counts = dict(zip(host.column("trace_id"), host.column("op_count"), strict=True))
        text += f" Host: {len(host):,} of {sum(counts.values()):,} outermost ops."
    yield note(text)
    yield "<figure><figcaption>Streams over time</figcaption>"
    yield '<div id="events-view"></div></figure>'


def _refused(answers: Answers) -> Iterator[str]:
    if not answers.refused:
        return
    yield '<section id="refused"><h2>What could not be answered</h2><ul>'
    for name, reason in answers.refused.items():
        yield f"<li>{escape(name)}: {escape(printable(reason))}</li>"
    yield "</ul></section>"
