"""The roofline: what matrix products and other ops reached, by their arithmetic per byte."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import VERMILLION, series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("compute_memory",)

ROOFS = {"ceiling_flop_per_s": VERMILLION}
"""Rates that bound the others, as lines."""


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where no op has a known size."""
    counted = [
        row
        for row in data["compute_memory"].to_dicts()
        if row["intensity_flop_per_byte"] and row["flop_per_s"]
    ]
    if not counted:
        return None
    rates = [row["flop_per_s"] for row in counted]
    rates += [row[f] for row in counted for f in ROOFS if row[f]]
    classes = sorted({row["op_class"] for row in counted})
    x = quantity("intensity_flop_per_byte", [], "FLOP per byte", scale={"type": "log"})
    spec = {
        "data": {"name": "compute_memory"},
        "height": 320,
        "transform": [
            {"filter": {"field": "intensity_flop_per_byte", "gt": 0}},
            {"filter": {"field": "flop_per_s", "gt": 0}},
        ],
        "layer": [
            {
                "transform": [{"filter": {"field": column, "gt": 0}}],
                "mark": {"type": "rule", "strokeDash": [6, 4], "strokeWidth": 1.5},
                "encoding": {
                    "y": quantity(column, rates, "reached", scale={"type": "log"}),
                    "color": {"value": colour.light},
                    "tooltip": told(column, "dtype"),
                },
            }
            for column, colour in ROOFS.items()
            if any(row[column] for row in counted)
        ]
        + [
            {
                "mark": {"type": "point", "filled": True, "size": 90},
                "encoding": {
                    "x": x,
                    "y": quantity("flop_per_s", rates, "reached", scale={"type": "log"}),
                    "color": colours("op_class", series(classes)),
                    "tooltip": told(
                        *("op_class", "dtype", "phase", "kernel_ns", "flop_per_s"),
                        *("intensity_flop_per_byte", "bound", "attainable_pct"),
                    ),
                },
            },
        ],
    }
    return Chart(
        "gemms",
        "What ops reached, by arithmetic per byte",
        spec,
        {"compute_memory": data["compute_memory"]},
    )
