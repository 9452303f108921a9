"""Ranks and what they spend their time on, as a heat map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, names, told, where

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("timeline",)

SHARES = ("compute_pct", "exposed_comm_pct", "exposed_memcpy_pct", "idle_pct")


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None of a single device."""
    rows = data["timeline"].to_dicts()
    if len(rows) < 2:
        return None
    spec = {
        "data": {"name": "timeline"},
        "height": bar_step(len(rows)),
        "transform": [*where(rows), {"fold": list(SHARES), "as": ["part", "share_pct"]}],
        "mark": {"type": "rect"},
        "encoding": {
            "y": names("where"),
            "x": names("part", SHARES),
            "color": {
                "field": "share_pct",
                "type": "quantitative",
                "scale": {"domain": [0, 100], "scheme": "blues"},
                "legend": {"title": "share of the device's window, %", "orient": "top"},
            },
            "tooltip": told("where", "window_ns", *SHARES),
        },
    }
    title = "How ranks differ in what they spend their time on"
    return Chart("ranks", title, spec, {"timeline": data["timeline"]})
