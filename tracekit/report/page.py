"""The report as one page: HTML with its style, its program and its data inside.

The page needs no network and may reach none: its content policy allows its own style and program,
by their digests, and nothing else. Whatever comes from a trace is escaped here, or put into the
page by the program as text.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING

import tracekit
from tracekit import palette
from tracekit.analysis.catalog import load_catalog
from tracekit.plot import chart_module
from tracekit.render._json_text import json_text
from tracekit.render._text import printable
from tracekit.render.sections import run as run_section
from tracekit.render.sections import trace as trace_section
from tracekit.report.answers import Answers
from tracekit.report.budget import Cut, cut
from tracekit.report.events import left_out, packed_events
from tracekit.report.sections import SECTIONS, TIMELINE_EVENTS, Section
from tracekit.report.verdict import sentences

if TYPE_CHECKING:
    from tracekit.plot import Chart

GENERATOR = "tracekit report"

_NO_SCRIPT = (
    "<noscript><p>Pictures and tables need JavaScript, which this browser does not run; the "
    "commands above print the same figures.</p></noscript>"
)

_SCRIPTS = ("units.js", "tables.js", "scales.js", "charts.js", "timeline.js", "main.js")
_STYLE = "report.css"


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
    used |= {str(chart.spec["data"]["name"]) for section in shown for chart in section.charts}
    data = {name: cuts[name] for name in cuts if name in used}
    title = f"tracekit · {', '.join(printable(name) for name in traces[:3])}"
    style, script = _style(), _script()
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    charts = {chart.name: chart for section in shown for chart in section.charts}
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta name="generator" content="{GENERATOR} {tracekit.__version__}">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<meta name="viewport" content="width=device-width">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{escape(title)}</title><style>{style}</style></head><body>",
        *_head(answers, traces),
        *_contents(shown),
        "<main>",
        *(line for one in shown for line in _section(one, answers, cuts, traces)),
        *_refused(answers),
        "</main>",
        _NO_SCRIPT,
        '<script type="application/json" id="page-data">',
        _page_json(charts, data, traces),
        "</script>",
    ]
    if any(one.section.name == "events" for one in shown):
        packed = packed_events(answers.results[TIMELINE_EVENTS])
        parts.append(f'<script type="text/plain" id="events-data">{packed}</script>')
    parts += [f"<script>{script}</script>", "</body></html>\n"]
    return "\n".join(parts)


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
    said = sentences(answers.results.get("verdict"))
    if said:
        yield '<ul class="verdict" id="verdict">'
        yield from (f"<li>{escape(sentence)}</li>" for sentence in said)
        yield "</ul>"
        command = escape(_command("verdict", traces))
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
            yield f"<h3>{escape(load_catalog().analysis(table).question)}</h3>"
            if note := cuts[table].note(_command(table, traces)):
                yield f'<p class="note">{escape(note)}</p>'
            yield f'<div class="table" data-rows="{table}"></div>'
    drawn = tuple(table for table in one.section.drawn if table in answers.results)
    yield from _sources(name, (*one.tables, *drawn), traces)
    yield "</section>"


def _charts(one: _Shown) -> Iterator[str]:
    has_tabs = one.section.has_tabs and len(one.charts) > 1
    if has_tabs:
        yield '<div class="tabs" role="tablist">'
        for place, chart in enumerate(one.charts):
            yield (
                f'<button type="button" role="tab" id="tab-{chart.name}" '
                f'aria-controls="chart-{chart.name}" aria-selected="{str(place == 0).lower()}" '
                f'tabindex="{-1 if place else 0}">{escape(chart.title)}</button>'
            )
        yield "</div>"
    for place, chart in enumerate(one.charts):
        panel = f' role="tabpanel" aria-labelledby="tab-{chart.name}"' if has_tabs else ""
        hidden = " hidden" if has_tabs and place else ""
        yield f'<div id="chart-{chart.name}"{panel}{hidden}>'
        title = escape(f"{chart.title} ({chart.omitted})" if chart.omitted else chart.title)
        yield f'<figure data-chart="{chart.name}"><figcaption>{title}</figcaption></figure>'
        yield "</div>"


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


def _sources(name: str, tables: Sequence[str], traces: Sequence[str]) -> Iterator[str]:
    yield "<details><summary>The commands and the SQL that give the same</summary>"
    for table in tables:
        spec = load_catalog().analysis(table)
        code = f"command-{name}-{table}"
        yield f'<p><code id="{code}">{escape(_command(table, traces))}</code> '
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


def _command(analysis: str, traces: Sequence[str]) -> str:
    return f"tracekit query {analysis} {_named(traces)} --format json"


def _named(traces: Sequence[str]) -> str:
    return " ".join(shlex.quote(printable(name)) for name in traces)


def _view_command(traces: Sequence[str]) -> str | None:
    """Return the command that opens the trace in Perfetto; None where there is no such command."""
    if find_spec("tracekit.cli.view") is None:
        return None
    return f"tracekit view {_named(traces)}"


def _page_json(charts: Mapping[str, Chart], data: Mapping[str, Cut], traces: Sequence[str]) -> str:
    """Return charts and rows as JSON that nothing in it can end early."""
    text = io.StringIO()
    specs = {
        name: {"title": chart.title, "spec": dict(chart.spec)} for name, chart in charts.items()
    }
    view = json.dumps(_view_command(traces), separators=(",", ":"))
    text.write(
        '{"view":' + view + ',"charts":' + json.dumps(specs, separators=(",", ":")) + ',\n"data":{'
    )
    for place, (name, one) in enumerate(data.items()):
        text.write(",\n" if place else "\n")
        columns = json.dumps(one.shown.column_names)
        text.write(f'{json.dumps(name)}:{{"columns":{columns},"total":{one.total},"rows":[')
        for number, row in enumerate(one.shown.rows):
            text.write(",\n" if number else "\n")
            text.write("[" + ",".join(map(json_text, row)) + "]")
        text.write("]}")
    text.write("}}")
    return in_script(text.getvalue())


def in_script(json: str) -> str:
    r"""Return JSON for an element `script`: what could end the element is written as an escape.

    The signs < > & and the line ends of JavaScript alone, U+2028 and U+2029, stand only in texts
    there, where \uXXXX means the same.
    """
    for character in "<>&\u2028\u2029":
        json = json.replace(character, f"\\u{ord(character):04x}")
    return json


@cache
def _asset(name: str) -> str:
    return (files("tracekit.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    return "'use strict';\n{\n" + "\n".join(map(_asset, _SCRIPTS)) + "}\n"


@cache
def _style() -> str:
    dark = "".join(f"--c-{colour.light[1:]}:{colour.dark};" for colour in palette.ALL)
    light = "".join(f"--c-{colour.light[1:]}:{colour.light};" for colour in palette.ALL)
    return (
        f":root{{{light}}}\n@media (prefers-color-scheme: dark)"
        f"{{:root:not([data-theme=light]){{{dark}}}}}\n:root[data-theme=dark]{{{dark}}}\n"
        + _asset(_STYLE)
    )


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
