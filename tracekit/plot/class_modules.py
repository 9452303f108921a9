"""The tree of modules as an icicle below the classes of kernels: what work was whose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit import palette
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("class_icicle",)

LEVEL_PX = 24


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where nothing ran."""
    rows = data["class_icicle"].to_dicts()
    if not rows:
        return None
    classes = palette.classes(list(dict.fromkeys(row["class"] for row in rows)))
    depths = sorted({row["depth"] for row in rows})
    ends = [row["to_ns"] for row in rows]
    spec = {
        "data": {"name": "class_icicle"},
        "height": {"step": LEVEL_PX},
        "mark": {"type": "bar", "stroke": "#ffffff", "strokeWidth": 1},
        "encoding": {
            "x": quantity("from_ns", ends, "busy time of all devices", scale={"nice": False}),
            "x2": {"field": "to_ns"},
            "y": {"field": "depth", "type": "ordinal", "sort": depths, "axis": {"title": "depth"}},
            "color": colours("class", classes),
            "text": {"field": "label"},
            "tooltip": told("module_path", "class", "total_wall_ns", "self_wall_ns", "wall_pct"),
        },
        "usermeta": {"zoom": "x", "label": "label"},
    }
    title = "In which modules the time was spent, by class of kernel"
    return Chart("class_modules", title, spec, {"class_icicle": data["class_icicle"]})
