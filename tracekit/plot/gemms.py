"""The roofline: what matrix products and other ops reached, by their arithmetic per byte."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracekit.palette import INK, series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("compute_memory", "roofline")

ROOFS = {"data sheet": ("dashed", [6, 4]), "measured": ("dotted", [2, 3])}
"""What draws the roofs by where they are from."""


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where no op has a known size."""
    counted = [
        row
        for row in data["compute_memory"].to_dicts()
        if row["intensity_flop_per_byte"] and row["flop_per_s"]
    ]
    if not counted:
        return None
    types = sorted({row["dtype"] for row in counted} - {None})
    roofs = [row for row in data["roofline"].to_dicts() if row["dtype"] in types]
    rates = [row["flop_per_s"] for row in counted + roofs]
    classes = sorted({row["op_class"] for row in counted})
    x = quantity("intensity_flop_per_byte", [], "FLOP per byte", scale={"type": "log"})
    x["axis"]["labelOverlap"] = True
    y = quantity("flop_per_s", rates, "reached", scale={"type": "log"})
    tip = told(
        *("op_class", "dtype", "phase", "kernel_ns", "flop_per_s"),
        *("intensity_flop_per_byte", "bound", "attainable_pct"),
    )
    colour = colours("op_class", series(classes))
    spec: dict[str, Any] = {
        "data": {"name": "compute_memory"},
        "height": 320,
        "layer": [
            {
                "transform": [
                    {"filter": {"field": "intensity_flop_per_byte", "gt": 0}},
                    {"filter": {"field": "flop_per_s", "gt": 0}},
                ],
                "mark": {"type": "point", "filled": True, "size": 90},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": colour,
                    "tooltip": tip,
                },
            },
        ],
    }
    shown = {"compute_memory": data["compute_memory"]}
    if roofs:
        kinds = [kind for kind in ROOFS if any(row["roof"] == kind for row in roofs)]
        said = ", ".join(f"{kind} ({ROOFS[kind][0]})" for kind in kinds)
        y["axis"]["title"] = y["axis"]["title"].replace("reached", f"reached; roofs: {said}")
        spec["layer"] = [*(_roofs(kind, types, x, y) for kind in kinds), *spec["layer"]]
        shown["roofline"] = data["roofline"]
    return Chart("gemms", "What ops reached, by arithmetic per byte", spec, shown)


def _roofs(
    kind: str, types: list[str], x: Mapping[str, Any], y: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the layer of the roofs of one kind, of the types that ran."""
    label = "datum.dtype + ' · ' + datum.roof + ' · ' + datum.rank + ' · ' + datum.device"
    return {
        "data": {"name": "roofline"},
        "transform": [
            {"filter": {"field": "roof", "equal": kind}},
            {"filter": {"field": "dtype", "oneOf": types}},
            {"calculate": label, "as": "which"},
        ],
        "mark": {"type": "line", "strokeDash": ROOFS[kind][1], "strokeWidth": 1.5},
        "encoding": {
            "x": x,
            "y": y,
            "detail": {"field": "which"},
            "color": {"value": INK.light},
            "tooltip": told("dtype", "roof", "flop_per_s", "ridge_flop_per_byte", "source"),
        },
    }
