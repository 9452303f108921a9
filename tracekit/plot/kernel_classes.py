"""The classes of kernels by the wall time that is theirs, over all devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import KIND
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, colours, largest, names, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("kernel_class_totals",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart."""
    keep, rows, omitted = largest(data["kernel_class_totals"].to_dicts(), "wall_ns")
    if not rows:
        return None
    kinds = {row["kind"]: KIND[row["kind"]] for row in rows}
    spec = {
        "data": {"name": "kernel_class_totals"},
        "height": bar_step(len(rows)),
        "transform": keep,
        "mark": {"type": "bar"},
        "encoding": {
            "y": names("class", [row["class"] for row in rows]),
            "x": quantity("wall_ns", [row["wall_ns"] for row in rows], "wall time of all devices"),
            "color": colours("kind", kinds),
            "tooltip": told("class", "kind", "wall_ns", "wall_pct", "kernel_ns", "kernel_count"),
        },
    }
    title = "Which classes of kernels held the devices"
    return Chart(
        "kernel_classes", title, spec, {"kernel_class_totals": data["kernel_class_totals"]}, omitted
    )
