"""Why the devices had nothing to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import KIND
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, names, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("idle_cause_totals",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where no device was idle."""
    rows = data["idle_cause_totals"].to_dicts()
    if not rows:
        return None
    spec = {
        "data": {"name": "idle_cause_totals"},
        "height": bar_step(len(rows)),
        "mark": {"type": "bar"},
        "encoding": {
            "y": names("cause", [row["cause"] for row in rows]),
            "x": quantity("idle_ns", [row["idle_ns"] for row in rows], "idle time of all devices"),
            "color": {"value": KIND["idle"].light},
            "tooltip": told("cause", "idle_ns", "idle_pct", "gap_count", "top_op", "top_module"),
        },
    }
    title = "Why the devices had nothing to do"
    return Chart("idle_causes", title, spec, {"idle_cause_totals": data["idle_cause_totals"]})
