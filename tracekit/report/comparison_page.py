"""The report of a comparison: what differs between two runs, as a page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from tracekit.render._text import printable
from tracekit.render.sections.comparison import EFFECTS
from tracekit.report.budget import Cut, cut
from tracekit.report.comparison_charts import charts
from tracekit.report.comparison_modules import VIEWS, Sides, charts_of
from tracekit.report.comparison_tables import TABLES
from tracekit.report.document import Content, document
from tracekit.report.page import figure
from tracekit.units import format_duration

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.plot import Chart

_DEFINITION = (
    "Figures are of one unit (a step, a window, a layer, a token or a request), new less base. "
    "The parts of the difference add up to it, to the nanosecond; work is matched by what it is, "
    "not by the names of kernels."
)


_MODULES = (
    "Where the time of both sides was spent, as trees: a module is as wide as its time, within the "
    "one around it, and both sides have one scale. What tracekit query module_icicle and "
    "class_icicle say of each."
)


def comparison_page(results: Mapping[str, Result], sides: Sides, base: str, new: str) -> str:
    """Return the report of a comparison as HTML.

    Args:
        results: its tables by name, as ``tracekit compare --format json`` has them.
        sides: what is drawn of the modules of base and new.
        base: how the one side was named, for title and command.
        new: the other one.
    """
    cuts = {name: cut(result) for name, result in results.items()}
    drawn = [*charts({name: one.shown for name, one in cuts.items()})]
    cut_sides = {
        side: {name: cut(result) for name, result in found.items()} for side, found in sides.items()
    }
    cuts |= {f"{side}_{name}": one for side in sides for name, one in cut_sides[side].items()}
    trees = {
        side: {name: one.shown for name, one in found.items()} for side, found in cut_sides.items()
    }
    by_tab = {view.tab: [*charts_of(view, trees)] for view in VIEWS}
    title = f"{printable(base)} → {printable(new)}"
    command = f"tracekit compare {shlex.quote(printable(base))} {shlex.quote(printable(new))}"
    body = [
        "<header>",
        '<button type="button" id="theme">light or dark</button>',
        f"<h1>{escape(title)}</h1>",
        '<ul class="verdict" id="verdict">',
        *(f"<li>{escape(sentence)}</li>" for sentence in comparison_sentences(results)),
        "</ul></header><main>",
        *_pictures(drawn),
        *_modules({tab: found for tab, found in by_tab.items() if found}),
        *_tables(cuts, command),
        "</main>",
    ]
    everything = [*drawn, *(chart for found in by_tab.values() for chart in found)]
    content = Content({chart.name: chart for chart in everything}, cuts)
    return document(f"tracekit · {title}", body, content)


def comparison_sentences(results: Mapping[str, Result]) -> list[str]:
    """Return what is to be said first; every figure is one of the comparison's tables."""
    (row,) = results["comparison"].to_dicts()
    said = [_whole(row)]
    effects = results["comparison_effects"].to_dicts()
    if effects:
        first = effects[0]
        sign = "+" if first["delta_ns"] > 0 else "−"
        amount = format_duration(abs(first["delta_ns"]))
        cause = EFFECTS[first["effect"]]
        said.append(f"The largest cause is {cause}: {sign}{amount} per {row['per']}.")
    if row["matched_pct"] is not None:
        said.append(
            f"{row['matched_pct']:.1f} % of the device time of both sides has a counterpart on the "
            "other one."
        )
    return said


def _whole(row: Mapping[str, Any]) -> str:
    delta = row["delta_ns"]
    if not delta:
        return f"Both take the same time per {row['per']}."
    share = "" if row["delta_pct"] is None else f" ({row['delta_pct']:+.1f} %)"
    verb = "longer" if delta > 0 else "shorter"
    verdict = row["verdict"] or "no verdict, as a side has one measurement only"
    return (
        f"A {row['per']} of the new side takes {format_duration(abs(delta))} {verb}{share}: "
        f"{verdict}, of {row['base_sample_count']} and {row['new_sample_count']} measurements."
    )


def _pictures(drawn: Sequence[Chart]) -> Iterator[str]:
    yield '<section id="difference" aria-labelledby="difference-title">'
    yield '<h2 id="difference-title">The difference</h2>'
    yield f'<p class="definition">{escape(_DEFINITION)}</p>'
    yield from map(figure, drawn)
    yield "</section>"


def _modules(by_tab: Mapping[str, Sequence[Chart]]) -> Iterator[str]:
    if not by_tab:
        return
    yield '<section id="modules" aria-labelledby="modules-title">'
    yield '<h2 id="modules-title">Modules of both sides</h2>'
    yield f'<p class="definition">{escape(_MODULES)}</p>'
    yield '<div class="tabs" role="tablist" aria-label="how modules are divided">'
    for place, tab in enumerate(by_tab):
        yield (
            f'<button type="button" role="tab" id="tab-{place}" aria-controls="panel-{place}" '
            f'aria-selected="{str(place == 0).lower()}" tabindex="{-1 if place else 0}">'
            f"{escape(tab)}</button>"
        )
    yield "</div>"
    for place, drawn in enumerate(by_tab.values()):
        hidden = " hidden" if place else ""
        yield f'<div id="panel-{place}" role="tabpanel" aria-labelledby="tab-{place}"{hidden}>'
        yield '<div class="sides">'
        yield from (figure(chart, is_side=True) for chart in drawn)
        yield "</div></div>"
    yield "</section>"


def _tables(cuts: Mapping[str, Cut], command: str) -> Iterator[str]:
    yield '<section id="tables" aria-labelledby="tables-title">'
    yield '<h2 id="tables-title">The figures</h2>'
    yield f'<p><code id="command">{escape(command)} --format json</code> '
    yield '<button type="button" data-copy="command">copy</button> gives the same.</p>'
    for name, (title, definition) in TABLES.items():
        if name not in cuts or not cuts[name].total:
            continue
        yield f"<h3>{escape(title)}</h3>"
        yield f'<p class="definition">{escape(definition)}</p>'
        if note := cuts[name].note(f"{command} --format json"):
            yield f'<p class="note">{escape(note)}</p>'
        yield f'<div class="table" data-rows="{name}"></div>'
    yield "</section>"
