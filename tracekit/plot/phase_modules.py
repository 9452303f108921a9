"""The tree of modules as an icicle: as wide as their time, within those around them. By phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import PHASE
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("module_icicle",)

LEVEL_PX = 24


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None without modules."""
    rows = [row for row in data["module_icicle"].to_dicts() if row["view"] == "phases"]
    if not rows:
        return None
    ends = [row["to_ns"] for row in rows]
    depths = sorted({row["depth"] for row in rows})
    spec = {
        "data": {"name": "module_icicle"},
        "height": {"step": LEVEL_PX},
        "transform": [{"filter": {"field": "view", "equal": "phases"}}],
        "mark": {"type": "bar", "stroke": "#ffffff", "strokeWidth": 1},
        "encoding": {
            "x": quantity("from_ns", ends, "busy time of all devices", scale={"nice": False}),
            "x2": {"field": "to_ns"},
            "y": {"field": "depth", "type": "ordinal", "sort": depths, "axis": {"title": "depth"}},
            "color": colours(
                "phase", {row["phase"]: PHASE.get(row["phase"], PHASE["other"]) for row in rows}
            ),
            "text": {"field": "label"},
            "tooltip": told("module_path", "phase", "total_wall_ns", "self_wall_ns", "wall_pct"),
        },
        "usermeta": {"zoom": "x", "label": "label"},
    }
    return Chart(
        "phase_modules",
        "In which modules the time was spent, by phase",
        spec,
        {"module_icicle": data["module_icicle"]},
    )
