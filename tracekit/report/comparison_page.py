"""The report of a comparison of two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tracekit.analysis.result import Result
from tracekit.palette import BLUE, INK, KIND, PHASE, SLATE, VERMILLION, Colour, classes
from tracekit.plot import Chart, find_chart
from tracekit.plot._encoding import bar_step, colours, fixed, names, quantity, tooltip
from tracekit.render._text import printable
from tracekit.render.sections import SECTIONS
from tracekit.report.budget import Cut, cut
from tracekit.report.parts import (
    Shown,
    copied,
    figure,
    folded,
    note,
    page_of,
    quoted,
    rows_of,
    section_head,
    sides,
    tabs,
)
from tracekit.trace import Trace

_DEFINITION = (
    "Figures are per unit (step, window, layer, token, or request), and differences are new minus "
    "base. The parts add up to the difference, to the nanosecond. Work is matched by op, shape, "
    "and module before kernel name."
)


_MODULES = (
    "Module trees of both sides, on a common scale: the width of a module is its time, and each "
    "module is inside its parent. Source: tracekit query modules --per icicle, and class_icicle."
)

TABLES = {
    "comparison": (
        "Total",
        (
            "Time per unit (per) on both sides, as the mean over units and devices; the "
            "difference; the verdict of a rank test on the measurements that column sample names; "
            "and the share of device time with a counterpart on the other side."
        ),
    ),
    "comparison_noise": (
        "Significance",
        (
            "Medians of each measure, their difference with a bootstrap interval, and the verdict "
            "of a rank test. Unprofiled steps ran without the profiler."
        ),
    ),
    "comparison_effects": (
        "Causes of the difference",
        (
            "new and gone: work on only one side. recompute: recomputation on only one side. "
            "count: more or fewer calls, at the base's time per call. clock: all compute takes "
            "longer by a common factor. cost: calls of the same kernels with the same shapes take "
            "longer. shape: other shapes. kernel: other kernels for the same work. overlap: less "
            "of the work overlaps with other work."
        ),
    ),
    "comparison_split": (
        "Difference by parts",
        "A tree: the children of a node add up to the node, to the nanosecond.",
    ),
    "comparison_work": (
        "Largest differences",
        (
            "Matched work at one location. Work is matched by op, shape, and name; then by op and "
            "shape, by op, by class, and by location. Column match shows how; new and gone have "
            "no counterpart."
        ),
    ),
    "comparison_modules": (
        "Matched modules",
        "Pairs of corresponding modules, and how they were matched.",
    ),
    "comparison_latency": (
        "Latency of requests",
        (
            "Percentiles of each metric, as in tracekit query latency, with intervals over "
            "requests. If an interval would reach the longest request, it is not shown."
        ),
    ),
    "comparison_throughput": (
        "Throughput",
        "Rates of the complete load, with intervals from blocks of consecutive answers.",
    ),
    "comparison_batches": (
        "Engine steps by batch",
        (
            "Why the mean step of a phase differs: a different mix of batches, batches on only "
            "one side, and the same batches taking longer. These add up to the difference."
        ),
    ),
    "comparison_setup": (
        "Setup differences",
        "Differences in manifests, machines, and health. Column weight shows how much they matter.",
    ),
}
"""Title and definition of each section, in reading order."""

Sides = Mapping[str, Mapping[str, "Result"]]
"""Results of the analyses that charts show, by side: base and new."""

ANALYSES = ("module_icicle", "class_icicle")


class View(Struct, frozen=True):
    """A view of the modules: label of the tab, chart, and column that determines colors."""

    tab: str
    chart: str
    colour: str | None = None


VIEWS = (
    View("by phase, busy and idle", "phase_modules", "phase"),
    View("busy time", "modules"),
    View("busy time by kernel class", "class_modules", "class"),
)


LONGER, SHORTER = VERMILLION, BLUE
"""Colors of increases and decreases on the new side."""

_PARTS, _LEVEL = 1, 2
_MAX_PLACES = 30


def comparison_page(
    results: Mapping[str, Result], trees: Sides, base: str, new: str, changes: Sequence[str] = ()
) -> str:
    """Return the report of a comparison as HTML. With `changes`, `new` is a prediction."""
    cuts = {name: cut(result) for name, result in results.items()}
    drawn = [*difference_charts({name: one.shown for name, one in cuts.items()})]
    cut_sides = {
        side: {name: cut(result) for name, result in each.items()} for side, each in trees.items()
    }
    cuts |= {f"{side}_{name}": one for side in trees for name, one in cut_sides[side].items()}
    trees = {
        side: {name: one.shown for name, one in each.items()} for side, each in cut_sides.items()
    }
    by_tab = {view.tab: [*modules_charts(view, trees)] for view in VIEWS}
    title = f"{printable(base)} → {printable('; '.join(changes) or new)}"
    command = f"tracekit compare {quoted(base, new)}"
    if changes:
        options = " ".join(f"--change {quoted(change)}" for change in changes)
        command = (
            f"mkdir predicted && tracekit predict {quoted(base)} {options} --timeline predicted && "
            f"tracekit compare {quoted(base)} predicted"
        )
    shown = [
        Shown("difference", "", [*_pictures(drawn)], {chart.name: chart for chart in drawn}, cuts),
        _modules({tab: each for tab, each in by_tab.items() if each}),
        Shown("tables", "", [*_tables(cuts, command)]),
    ]
    lines = [line.plain for line in SECTIONS["comparison"].lines(results, 120)]
    head = [f"<pre>{escape(chr(10).join(lines))}</pre>"]
    return page_of((title, title), head, shown, has_contents=False)


def _pictures(drawn: Sequence[Chart]) -> Iterator[str]:
    yield from section_head("difference", "The difference", _DEFINITION)
    yield from map(figure, drawn)
    yield "</section>"


def _modules(by_tab: Mapping[str, Sequence[Chart]]) -> Shown:
    if not by_tab:
        return Shown("modules", "")
    lines = [*section_head("modules", "Modules", _MODULES)]
    buttons = {str(place): (tab, f"panel-{place}") for place, tab in enumerate(by_tab)}
    lines += tabs(buttons, "module breakdown")
    for place, drawn in enumerate(by_tab.values()):
        panel = f'id="panel-{place}" role="tabpanel" aria-labelledby="tab-{place}"'
        lines.append(f"<div {panel}{' hidden' if place else ''}>")
        lines += [*sides(drawn), "</div>"]
    lines.append("</section>")
    charts = {chart.name: chart for drawn in by_tab.values() for chart in drawn}
    return Shown("modules", "", lines, charts)


def _tables(cuts: Mapping[str, Cut], command: str) -> Iterator[str]:
    yield '<section id="tables" aria-labelledby="tables-title">'
    yield '<h2 id="tables-title">The figures</h2>'
    yield f"<p>{copied('command', f'{command} --format json')} prints the same results.</p>"
    for name, (title, definition) in TABLES.items():
        if name not in cuts or not cuts[name].total:
            continue
        yield f"<h3>{escape(title)}</h3>"
        yield folded(definition)
        if left_out := cuts[name].note(f"{command} --format json"):
            yield note(left_out)
        yield rows_of(name)
    yield "</section>"


def difference_charts(results: Mapping[str, Result]) -> Iterator[Chart]:
    """Yield the charts of a comparison."""
    split = results["comparison_split"]
    rows = split.to_dicts()
    if rows:
        yield _waterfall(split, rows, f"per {results['comparison'].to_dicts()[0]['per']}")
        yield _places(split, rows)
    noise = results["comparison_noise"]
    if any(row["low_pct"] is not None for row in noise.to_dicts()):
        yield _intervals(noise)


def _longer_and_shorter(**encoding: Any) -> list[dict[str, Any]]:
    """Return the layers of bars: increases and decreases in their colors."""
    return [
        {
            "transform": [{"filter": {"field": "delta_ns", test: 0}}],
            "mark": {"type": "bar"},
            "encoding": {"color": fixed(colour), **encoding},
        }
        for test, colour in (("gt", LONGER), ("lt", SHORTER))
    ]


def _waterfall(split: Result, rows: list[dict[str, Any]], per: str) -> Chart:
    """Return a waterfall chart of the difference by category."""
    parts = [row for row in rows if row["depth"] == _PARTS]
    ends = [sum(row["delta_ns"] for row in parts[: at + 1]) for at in range(len(parts))]
    x = quantity("from_ns", ends, f"difference {per}, new minus base")
    spec = {
        "data": {"name": split.name},
        "height": bar_step(len(parts)),
        "transform": [
            {"filter": {"field": "depth", "equal": _PARTS}},
            {"window": [{"op": "sum", "field": "delta_ns", "as": "to_ns"}], "frame": [None, 0]},
            {"calculate": "datum.to_ns - datum.delta_ns", "as": "from_ns"},
        ],
        "encoding": {
            "y": names("name", [row["name"] for row in parts]),
            "tooltip": tooltip("name", "base_ns", "new_ns", "delta_ns", "base_pct", "verdict"),
        },
        "layer": _longer_and_shorter(x=x, x2={"field": "to_ns"}),
    }
    title = "Difference by parts: longer in orange, shorter in blue"
    return Chart("comparison_parts", title, spec, {split.name: split})


def _places(split: Result, rows: list[dict[str, Any]]) -> Chart:
    """Return a chart of the largest differences within the categories."""
    names_of = {row["node"]: row["name"] for row in rows}
    results = [row for row in rows if row["depth"] == _LEVEL and row["delta_ns"]]
    results.sort(key=lambda row: -abs(row["delta_ns"]))
    shown = results[:_MAX_PLACES]
    nodes = [row["node"] for row in shown]
    x = quantity("delta_ns", [row["delta_ns"] for row in shown], "difference, new minus base")
    label = {"calculate": "datum.name + ' · #' + datum.node", "as": "which"}
    spec = {
        "data": {"name": split.name},
        "height": bar_step(len(shown)),
        "transform": [{"filter": {"field": "node", "oneOf": nodes}}, label],
        "encoding": {
            "y": names("which", [f"{names_of[node]} · #{node}" for node in nodes]),
            "tooltip": tooltip("name", "base_ns", "new_ns", "delta_ns", "base_pct", "verdict"),
        },
        "layer": _longer_and_shorter(x=x),
    }
    more = f"the {len(shown)} largest of {len(results):,}" if len(results) > len(shown) else ""
    title = "Location of the difference"
    return Chart("comparison_places", title, spec, {split.name: split}, more)


def _intervals(noise: Result) -> Chart:
    """Return a chart of the difference of each measure with its confidence interval."""
    rows = [row for row in noise.to_dicts() if row["low_pct"] is not None]
    ends = [row[column] for row in rows for column in ("low_pct", "high_pct")]
    x = quantity("low_pct", ends, "difference with interval, new minus base")
    spec = {
        "data": {"name": noise.name},
        "height": bar_step(len(rows)),
        "transform": [{"filter": {"field": "low_pct", "valid": True}}],
        "encoding": {
            "y": names("measure"),
            "tooltip": tooltip(
                *("measure", "difference_pct", "low_pct", "high_pct", "p_value", "verdict"),
                *("base_count", "new_count", "base_median_ns", "new_median_ns"),
            ),
        },
        "layer": [
            {
                "mark": {"type": "bar", "height": {"band": 0.3}},
                "encoding": {"x": x, "x2": {"field": "high_pct"}, "color": fixed(SLATE)},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70},
                "encoding": {
                    "x": {**x, "field": "difference_pct"},
                    "color": fixed(INK),
                },
            },
        ],
    }
    title = "Uncertainty of the step difference"
    return Chart("comparison_noise", title, spec, {noise.name: noise})


def modules_of(trace: Trace) -> dict[str, Result]:
    """Return the results that the charts of one side show."""
    return {name: trace.query(name) for name in ANALYSES}


def modules_charts(view: View, sides: Sides) -> Iterator[Chart]:
    """Yield the charts of one view, one per side with modules.

    Both sides have the same time scale and the same color per name.
    """
    (need,) = find_chart(view.chart).needs
    drawn = {
        side: chart
        for side, results in sides.items()
        if (chart := find_chart(view.chart).chart(results)) is not None
    }
    # Several charts may show the rows of one analysis.
    rows = [row for results in sides.values() for row in results[need].to_dicts()]
    shown = {one["filter"]["equal"] for c in drawn.values() for one in c.spec.get("transform", ())}
    ends = [row["to_ns"] for row in rows if not shown or row["view"] in shown]
    for side, chart in drawn.items():
        data = f"{side}_{need}"
        domain = {"domain": [0, max(ends)]}
        encoding = {
            **chart.spec["encoding"],
            "x": quantity("from_ns", ends, "time of all devices", scale=domain),
        }
        if view.colour is not None:
            encoding["color"] = colours(view.colour, _colours(view.colour, need, sides))
        spec: dict[str, Any] = {**chart.spec, "data": {"name": data}, "encoding": encoding}
        title = f"Modules of {side}, {view.tab}"
        yield replace(
            chart,
            name=f"{side}_{view.chart}",
            title=title,
            spec=spec,
            data={data: sides[side][need]},
        )


def _colours(column: str, need: str, sides: Sides) -> dict[str, Colour]:
    """Return the colors of the names on both sides, in a common order."""
    values = (value for results in sides.values() for value in results[need].column(column))
    result = [value for value in dict.fromkeys(values) if value is not None]
    if column == "phase":
        return {phase: (PHASE | KIND).get(phase, PHASE["other"]) for phase in result}
    return classes(result)
