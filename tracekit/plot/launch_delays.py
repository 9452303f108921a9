"""How long work waited on the device after its launch, by the call that launched it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import BLUE, SKY
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, largest, names, quantity, told, where

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("launch_delays",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where nothing was launched."""
    all_rows = data["launch_delays"].to_dicts()
    keep, rows, omitted = largest(all_rows, "p99_delay_ns")
    if not rows:
        return None
    label = where(all_rows)[0]["calculate"] + " + ' · ' + datum.launch"
    delays = [row["p99_delay_ns"] for row in rows]
    title_of_axis = "delay: 99th percentile (pale), median (full)"
    tip = told(
        "which", "kernel_count", "median_delay_ns", "p99_delay_ns", "max_delay_ns", "mean_launch_ns"
    )
    spec = {
        "data": {"name": "launch_delays"},
        "height": bar_step(len(rows)),
        "transform": [*keep, {"calculate": label, "as": "which"}],
        "encoding": {"y": names("which"), "tooltip": tip},
        "layer": [
            {
                "mark": {"type": "bar", "opacity": 0.5},
                "encoding": {
                    "x": quantity("p99_delay_ns", delays, title_of_axis),
                    "color": {"value": SKY.light},
                },
            },
            {
                "mark": {"type": "bar", "height": {"band": 0.45}},
                "encoding": {
                    "x": quantity("median_delay_ns", delays, title_of_axis),
                    "color": {"value": BLUE.light},
                },
            },
        ],
    }
    title = "How long work waited on the device after its launch"
    return Chart("launch_delays", title, spec, {"launch_delays": data["launch_delays"]}, omitted)
