"""The kernels that held a device longest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import BLUE
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, largest, names, quantity, told, where

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("kernels",)

MAX_KERNELS = 25


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart."""
    all_rows = data["kernels"].to_dicts()
    keep, rows, omitted = largest(all_rows, "wall_ns", MAX_KERNELS)
    if not rows:
        return None
    rows = sorted(rows, key=lambda row: -row["wall_ns"])
    spec = {
        "data": {"name": "kernels"},
        "height": bar_step(len({row["name"] for row in rows})),
        "transform": [*keep, *where(all_rows)],
        "mark": {"type": "bar", "stroke": "#ffffff", "strokeWidth": 1},
        "encoding": {
            "y": names("name", list(dict.fromkeys(row["name"] for row in rows))),
            "x": quantity("wall_ns", [row["wall_ns"] for row in rows], "wall time", stack="zero"),
            "color": {"value": BLUE.light},
            "detail": {"field": "where"},
            "tooltip": told(
                "name", "class", "where", "kernel_count", "wall_ns", "kernel_ns", "mean_ns"
            ),
        },
    }
    return Chart(
        "kernels", "Kernels that held a device longest", spec, {"kernels": data["kernels"]}, omitted
    )
