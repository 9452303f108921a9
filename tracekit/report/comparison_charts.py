"""The pictures of a comparison: a waterfall of the difference, where it is, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracekit.palette import BLUE, INK, SLATE, VERMILLION
from tracekit.plot import Chart
from tracekit.plot._encoding import bar_step, names, quantity, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracekit.analysis.result import Result

LONGER, SHORTER = VERMILLION, BLUE
"""The colours of what takes longer on the new side, and of what takes shorter."""

_PARTS, _LEVEL = 1, 2
_MAX_PLACES = 30


def charts(results: Mapping[str, Result]) -> Iterator[Chart]:
    """Return the charts of a comparison.

    Args:
        results: its tables by name.
    """
    split = results["comparison_split"]
    rows = split.to_dicts()
    if rows:
        yield _waterfall(split, rows, f"per {results['comparison'].to_dicts()[0]['per']}")
        yield _places(split, rows)
    noise = results["comparison_noise"]
    if any(row["low_pct"] is not None for row in noise.to_dicts()):
        yield _intervals(noise)


def _floating(field: str, test: Mapping[str, int], colour: str, **encoding: Any) -> dict[str, Any]:
    return {
        "transform": [{"filter": {"field": field, **test}}],
        "mark": {"type": "bar"},
        "encoding": {"color": {"value": colour}, **encoding},
    }


def _waterfall(split: Result, rows: list[dict[str, Any]], per: str) -> Chart:
    """Return the parts of the difference, each beginning where the one before ends."""
    parts = [row for row in rows if row["depth"] == _PARTS]
    ends = [sum(row["delta_ns"] for row in parts[: at + 1]) for at in range(len(parts))]
    x = quantity("from_ns", ends, f"difference {per}, new less base")
    place = {"x": x, "x2": {"field": "to_ns"}}
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
            "tooltip": told("name", "base_ns", "new_ns", "delta_ns", "share_pct", "verdict"),
        },
        "layer": [
            _floating("delta_ns", {"gt": 0}, LONGER.light, **place),
            _floating("delta_ns", {"lt": 0}, SHORTER.light, **place),
        ],
    }
    title = "The difference by parts: longer in orange, shorter in blue"
    return Chart("comparison_parts", title, spec, {split.name: split})


def _places(split: Result, rows: list[dict[str, Any]]) -> Chart:
    """Return where within the parts the difference is largest."""
    names_of = {row["node"]: row["name"] for row in rows}
    found = [row for row in rows if row["depth"] == _LEVEL and row["delta_ns"]]
    found.sort(key=lambda row: -abs(row["delta_ns"]))
    shown = found[:_MAX_PLACES]
    nodes = [row["node"] for row in shown]
    x = quantity("delta_ns", [row["delta_ns"] for row in shown], "difference, new less base")
    label = {"calculate": "datum.name + ' · #' + datum.node", "as": "which"}
    spec = {
        "data": {"name": split.name},
        "height": bar_step(len(shown)),
        "transform": [{"filter": {"field": "node", "oneOf": nodes}}, label],
        "encoding": {
            "y": names("which", [f"{names_of[node]} · #{node}" for node in nodes]),
            "tooltip": told("name", "base_ns", "new_ns", "delta_ns", "share_pct", "verdict"),
        },
        "layer": [
            _floating("delta_ns", {"gt": 0}, LONGER.light, x=x),
            _floating("delta_ns", {"lt": 0}, SHORTER.light, x=x),
        ],
    }
    more = f"the {len(shown)} largest of {len(found):,}" if len(found) > len(shown) else ""
    title = "Where the difference is"
    return Chart("comparison_places", title, spec, {split.name: split}, more)


def _intervals(noise: Result) -> Chart:
    """Return the difference of each measure with its confidence interval."""
    rows = [row for row in noise.to_dicts() if row["low_pct"] is not None]
    ends = [row[column] for row in rows for column in ("low_pct", "high_pct")]
    x = quantity("low_pct", ends, "difference with its interval, new less base")
    spec = {
        "data": {"name": noise.name},
        "height": bar_step(len(rows)),
        "transform": [{"filter": {"field": "low_pct", "valid": True}}],
        "encoding": {
            "y": names("measure"),
            "tooltip": told(
                *("measure", "difference_pct", "low_pct", "high_pct", "p_value", "verdict"),
                *("base_count", "new_count", "base_median_ns", "new_median_ns"),
            ),
        },
        "layer": [
            {
                "mark": {"type": "bar", "height": {"band": 0.3}},
                "encoding": {"x": x, "x2": {"field": "high_pct"}, "color": {"value": SLATE.light}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70},
                "encoding": {
                    "x": {**x, "field": "difference_pct"},
                    "color": {"value": INK.light},
                },
            },
        ],
    }
    title = "How sure it is: steps of both sides"
    return Chart("comparison_noise", title, spec, {noise.name: noise})
