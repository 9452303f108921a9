"""What each phase cost all devices together: busy, with communication alone, and waiting for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import KIND
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, names, parts, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("phase_totals",)

PARTS = {"covered_ns": "compute", "exposed_comm_ns": "comm", "idle_ns": "idle"}


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart."""
    rows = data["phase_totals"].to_dicts()
    if not rows:
        return None
    spans = [row["span_ns"] for row in rows]
    spec = {
        "data": {"name": "phase_totals"},
        "height": bar_step(len(rows)),
        "transform": [{"fold": [*PARTS], "as": ["part", "part_ns"]}],
        "mark": {"type": "bar"},
        "encoding": {
            "y": names("phase", [row["phase"] for row in rows]),
            "x": quantity("part_ns", spans, "time of all devices", stack="zero"),
            "color": parts("part", {column: KIND[kind] for column, kind in PARTS.items()}),
            "tooltip": told("phase", "span_ns", "span_pct", *PARTS, "kernel_count"),
        },
    }
    title = "Where the time of a step goes, by phase"
    return Chart("phases", title, spec, {"phase_totals": data["phase_totals"]})
