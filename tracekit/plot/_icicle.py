"""Trees of modules as icicles: as wide as their time, within those around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracekit.plot._chart import Chart
from tracekit.plot._encoding import quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

LEVEL_PX = 24

_Rows = Sequence[Mapping[str, Any]]


def icicle(
    data: Mapping[str, Result],
    view: str,
    name: str,
    title: str,
    colour: Callable[[_Rows], Mapping[str, Any]],
) -> Chart | None:
    """Return the chart of one view of `module_icicle`; None without modules.

    Args:
        data: results by name, module_icicle among them.
        view: which of its views.
        name: the chart's name.
        title: what stands above it.
        colour: returns the encoding of the colour for the rows of the view.
    """
    rows = [row for row in data["module_icicle"].to_dicts() if row["view"] == view]
    if not rows:
        return None
    ends = [row["to_ns"] for row in rows]
    depths = sorted({row["depth"] for row in rows})
    spec = {
        "data": {"name": "module_icicle"},
        "height": {"step": LEVEL_PX},
        "transform": [{"filter": {"field": "view", "equal": view}}],
        "mark": {"type": "bar", "stroke": "#ffffff", "strokeWidth": 1},
        "encoding": {
            "x": quantity("from_ns", ends, "busy time of all devices", scale={"nice": False}),
            "x2": {"field": "to_ns"},
            "y": {"field": "depth", "type": "ordinal", "sort": depths, "axis": {"title": "depth"}},
            "color": colour(rows),
            "text": {"field": "label"},
            "tooltip": told("module_path", "phase", "total_wall_ns", "self_wall_ns", "wall_pct"),
        },
        "usermeta": {"zoom": "x", "label": "label"},
    }
    return Chart(name, title, spec, {"module_icicle": data["module_icicle"]})
