"""What was copied, which way, and how fast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import KIND
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, largest, names, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("memcpy_totals",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None without copies."""
    keep, rows, omitted = largest(data["memcpy_totals"].to_dicts(), "kernel_ns")
    if not rows:
        return None
    spec = {
        "data": {"name": "memcpy_totals"},
        "height": bar_step(len(rows)),
        "transform": keep,
        "mark": {"type": "bar"},
        "encoding": {
            "y": names("direction", [row["direction"] for row in rows]),
            "x": quantity("kernel_ns", [row["kernel_ns"] for row in rows], "time of all copies"),
            "color": {"value": KIND["memcpy"].light},
            "tooltip": told(
                *("direction", "copy_count", "kernel_ns", "wall_ns"),
                *("bytes", "bandwidth_bytes_per_s"),
            ),
        },
    }
    return Chart(
        "memcpy",
        "What was copied or set, which way",
        spec,
        {"memcpy_totals": data["memcpy_totals"]},
        omitted,
    )
