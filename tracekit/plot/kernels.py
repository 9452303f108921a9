"""The kernels that held a device longest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracekit.palette import BLUE
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import (
    bar_step,
    has_several_devices,
    largest,
    names,
    quantity,
    told,
    where,
)

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
    # A bar is a row: the lists of devices are cut, so bars of one name do not add up to anything.
    label = "datum.class + ' · ' + datum.name"
    if has_several_devices(all_rows):
        label = where(all_rows)[0]["calculate"] + " + ' · ' + " + label
    spec: dict[str, Any] = {
        "data": {"name": "kernels"},
        "height": bar_step(len(rows)),
        "transform": [*keep, {"calculate": label, "as": "which"}],
        "mark": {"type": "bar"},
        "encoding": {
            "y": names("which"),
            "x": quantity("wall_ns", [row["wall_ns"] for row in rows], "wall time"),
            "color": {"value": BLUE.light},
            "tooltip": told("which", "class", "kernel_count", "wall_ns", "kernel_ns", "mean_ns"),
        },
    }
    spec["encoding"]["y"]["sort"] = "-x"
    spec["encoding"]["y"]["axis"]["labelLimit"] = 400
    title = "Kernels that held a device longest"
    return Chart("kernels", title, spec, {"kernels": data["kernels"]}, omitted)
