"""How far apart many devices are in each step: the shortest, the median, the longest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import BLUE, SKY, VERMILLION
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import parts, quantity, told
from tracekit.plot.steps import MAX_LINES

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("step_spread",)

LINES = {"min_ns": SKY, "median_ns": BLUE, "max_ns": VERMILLION}


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None of so few devices that chart steps has a line for each."""
    rows = data["step_spread"].to_dicts()
    if not rows or max(row["rank_count"] for row in rows) <= MAX_LINES:
        return None
    step = quantity("step", [], "step", scale={"zero": False})
    step["axis"]["tickMinStep"] = 1
    spec = {
        "data": {"name": "step_spread"},
        "height": 240,
        "transform": [{"fold": [*LINES], "as": ["part", "part_ns"]}],
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": step,
            "y": quantity("part_ns", [row["max_ns"] for row in rows], "length on the device"),
            "color": parts("part", LINES),
            "tooltip": told(
                *("step", "part", "part_ns", "rank_count", "min_rank", "max_rank", "spread_pct")
            ),
        },
    }
    title = "How far the devices are apart in each step"
    return Chart("step_spread", title, spec, {"step_spread": data["step_spread"]})
