"""One bar per device: compute, exposed communication and copies, idle; together its window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import KIND
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, names, parts, quantity, told, where

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("timeline",)

PARTS = {
    "compute_ns": "compute",
    "exposed_comm_ns": "comm",
    "exposed_memcpy_ns": "memcpy",
    "idle_ns": "idle",
}
"""The columns of the parts of a window, and what they are of."""


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None without a device."""
    rows = data["timeline"].to_dicts()
    if not rows:
        return None
    windows = [row["window_ns"] for row in rows]
    spec = {
        "data": {"name": "timeline"},
        "height": bar_step(len(rows)),
        "transform": [*where(rows), {"fold": [*PARTS], "as": ["part", "part_ns"]}],
        "mark": {"type": "bar"},
        "encoding": {
            "y": names("where"),
            "x": quantity("part_ns", windows, "time of the device's window", stack="zero"),
            "color": parts("part", {column: KIND[kind] for column, kind in PARTS.items()}),
            "tooltip": told("where", "window_ns", *PARTS, "event_count"),
        },
    }
    title = "What each device did with its window"
    return Chart("timeline", title, spec, {"timeline": data["timeline"]})
