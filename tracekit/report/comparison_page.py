"""The report of a comparison: what differs between two runs, as a page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from tracekit.render._text import printable
from tracekit.report.budget import Cut, cut
from tracekit.report.comparison_charts import charts
from tracekit.report.document import Content, document
from tracekit.units import format_duration

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.plot import Chart

_TITLES = {
    "comparison": "The whole",
    "comparison_noise": "Is it more than noise?",
    "comparison_effects": "Why: adds up to the difference",
    "comparison_split": "The difference, split until it adds up",
    "comparison_work": "Work that differs most",
    "comparison_modules": "Modules of both sides",
    "comparison_setup": "What differs in the setup",
}

_DEFINITION = (
    "Figures are of one unit (a step, a window, a layer, a token or a request), new less base. "
    "The parts of the difference add up to it, to the nanosecond; work is matched by what it is, "
    "not by the names of kernels."
)


def comparison_page(
    results: Mapping[str, Result], sides: Mapping[str, Result], base: str, new: str
) -> str:
    """Return the report of a comparison as HTML.

    Args:
        results: its tables by name, as ``tracekit compare --format json`` has them.
        sides: the results of analysis module_icicle, of base and new.
        base: how the one side was named, for title and command.
        new: the other one.
    """
    cuts = {name: cut(result) for name, result in results.items()}
    cuts |= {f"{side}_module_icicle": cut(result) for side, result in sides.items()}
    shown = {name: one.shown for name, one in cuts.items()}
    drawn = [
        *charts(shown, {side: cut(result).shown for side, result in sides.items()}),
    ]
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
        *_tables(cuts, command),
        "</main>",
    ]
    content = Content({chart.name: chart for chart in drawn}, cuts)
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
        said.append(f"The largest cause is {first['effect']}: {sign}{amount} per {row['per']}.")
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
    yield '<div class="sides">'
    for chart in drawn:
        title = escape(f"{chart.title} ({chart.omitted})" if chart.omitted else chart.title)
        side = " class=side" if chart.name.endswith("_module_icicle") else ""
        yield f'<figure{side} data-chart="{chart.name}"><figcaption>{title}</figcaption></figure>'
    yield "</div></section>"


def _tables(cuts: Mapping[str, Cut], command: str) -> Iterator[str]:
    yield '<section id="tables" aria-labelledby="tables-title">'
    yield '<h2 id="tables-title">The figures</h2>'
    yield f'<p><code id="command">{escape(command)} --format json</code> '
    yield '<button type="button" data-copy="command">copy</button> gives the same.</p>'
    for name, title in _TITLES.items():
        if name not in cuts or not cuts[name].total:
            continue
        yield f"<h3>{escape(title)}</h3>"
        if note := cuts[name].note(f"{command} --format json"):
            yield f'<p class="note">{escape(note)}</p>'
        yield f'<div class="table" data-rows="{name}"></div>'
    yield "</section>"
