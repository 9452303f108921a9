"""HTML parts of pages: headings, sections, tabs, tables, commands, and charts.

Text from a trace is either escaped here, or inserted by the script as text.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from msgspec import Struct, field

from tracekit.analysis.catalog import load_catalog
from tracekit.plot import PARAMS, Chart, find_chart
from tracekit.render._text import printable
from tracekit.report.budget import Cut
from tracekit.report.document import Content, document


class Shown(Struct):
    """A section as HTML, with the charts and tables that the script draws in it."""

    name: str
    title: str
    lines: list[str] = field(default_factory=list)
    charts: dict[str, Chart] = field(default_factory=dict)
    data: dict[str, Cut] = field(default_factory=dict)


def page_of(
    names: tuple[str, str],
    head: Iterable[str],
    shown: Sequence[Shown],
    *,
    after: Iterable[str] = (),
    has_contents: bool = True,
    events: str | None = None,
    view_command: str | None = None,
) -> str:
    """Return a page as HTML.

    `names` are the title in the browser and the heading. `events` are the packed events of the
    timeline. `view_command` is a command that opens the trace in Perfetto.
    """
    title, heading = names
    links = (f'<a href="#{one.name}">{escape(one.title)}</a>' for one in shown)
    body = [
        "<header>",
        '<button type="button" id="theme">light or dark</button>',
        f"<h1>{escape(heading)}</h1>",
        *head,
        "</header>",
        *(['<nav aria-label="sections">', *links, "</nav>"] if has_contents else []),
        "<main>",
        *(line for one in shown for line in one.lines),
        *after,
        "</main>",
    ]
    charts = {name: chart for one in shown for name, chart in one.charts.items()}
    data = {name: rows for one in shown for name, rows in one.data.items()}
    return document(f"tracekit · {title}", body, Content(charts, data, events, view_command))


def verdict(sentences: Iterable[str]) -> Iterator[str]:
    """Yield the verdict as HTML."""
    yield '<ul class="verdict" id="verdict">'
    yield from (f"<li>{escape(sentence)}</li>" for sentence in sentences)
    yield "</ul>"


def section_head(name: str, title: str, definition: str) -> Iterator[str]:
    """Yield the beginning of a section."""
    yield f'<section id="{name}" aria-labelledby="{name}-title">'
    yield f'<h2 id="{name}-title">{escape(title)}</h2>'
    yield folded(definition)


def folded(definition: str) -> str:
    """Return the definition of figures as a closed disclosure element."""
    return (
        "<details><summary>Definition</summary>"
        f'<p class="definition">{escape(definition)}</p></details>'
    )


def definition_of(analysis: str) -> str:
    """Return the title and definition of an analysis."""
    spec = load_catalog().analysis(analysis)
    return f"{spec.question} {spec.description}"


def tabs(names: Mapping[str, tuple[str, str]], about: str = "") -> Iterator[str]:
    """Yield tabs, with the first one selected.

    `names` maps the suffix of a tab's id to its label and the id of the element that it shows.
    """
    label = f' aria-label="{about}"' if about else ""
    yield f'<div class="tabs" role="tablist"{label}>'
    for place, (name, (text, panel)) in enumerate(names.items()):
        yield (
            f'<button type="button" role="tab" id="tab-{name}" aria-controls="{panel}" '
            f'aria-selected="{str(place == 0).lower()}" tabindex="{-1 if place else 0}">'
            f"{escape(text)}</button>"
        )
    yield "</div>"


def figure(chart: Chart, *, is_side: bool = False) -> str:
    """Return the placeholder of a chart; with `is_side`, it has half the width."""
    title = escape(f"{chart.title} ({chart.omitted})" if chart.omitted else chart.title)
    side = ' class="side"' if is_side else ""
    return f'<figure{side} data-chart="{chart.name}"><figcaption>{title}</figcaption></figure>'


def sides(charts: Iterable[Chart]) -> Iterator[str]:
    """Yield the placeholders of charts of half width, two per line."""
    yield '<div class="sides">'
    yield from (figure(chart, is_side=True) for chart in charts)
    yield "</div>"


def charts_of(names: Iterable[str], cuts: Mapping[str, Cut]) -> Iterator[Chart]:
    """Yield the charts whose analyses have rows to draw."""
    for name in names:
        kind = find_chart(name)
        if all(need in cuts for need in kind.needs):
            chart = kind.chart({need: cuts[need].shown for need in kind.needs})
            if chart is not None:
                yield chart


def note(text: str) -> str:
    """Return a note as HTML."""
    return f'<p class="note">{escape(text)}</p>'


def rows_of(name: str) -> str:
    """Return the placeholder of a table."""
    return f'<div class="table" data-rows="{name}"></div>'


def tables(
    names: Iterable[str], defined: str, cuts: Mapping[str, Cut], traces: Sequence[str]
) -> Iterator[str]:
    """Yield the placeholders of tables, each below the title and definition of its analysis.

    For the analysis `defined`, they are omitted, because the section shows them.
    """
    for name in names:
        spec = load_catalog().analysis(name)
        yield f"<h3>{escape(spec.question)}</h3>"
        if name != defined and spec.description:
            yield folded(spec.description)
        if left_out := cuts[name].note(command_of(name, traces)):
            yield note(left_out)
        yield rows_of(name)


def copied(code_id: str, command: str) -> str:
    """Return a command with a button that copies it."""
    return (
        f'<code id="{code_id}">{escape(command)}</code> \n'
        f'<button type="button" data-copy="{code_id}">copy</button>'
    )


def sources(name: str, analyses: Sequence[str], traces: Sequence[str]) -> Iterator[str]:
    """Yield the part of a section with the commands and SQL that produce the same results."""
    yield "<details><summary>Commands and SQL for these results</summary>"
    for analysis in analyses:
        spec = load_catalog().analysis(analysis)
        yield f"<p>{copied(f'command-{name}-{analysis}', command_of(analysis, traces))}</p>"
        yield f"<details><summary>{escape(spec.subject)}/{analysis}.sql</summary>"
        yield f"<pre><code>{escape(spec.sql)}</code></pre></details>"
    yield "</details>"


def command_of(analysis: str, traces: Sequence[str]) -> str:
    """Return the command that shows the rows of an analysis on the page."""
    options = "".join(f" --{name} {value}" for name, value in PARAMS.get(analysis, {}).items())
    words = load_catalog().analyses.words(analysis)
    return f"tracekit query {words} {quoted(*traces)}{options} --format json"


def quoted(*names: str) -> str:
    """Return the names of traces, quoted for a shell."""
    return " ".join(shlex.quote(printable(name)) for name in names)
