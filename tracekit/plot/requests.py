"""The life of the requests that took longest: until the first token, and to the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import PHASE
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, largest, names, quantity, request_of, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("requests",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None without requests."""
    keep, rows, omitted = largest(data["requests"].to_dicts(), "e2e_ns", 30)
    if not rows:
        return None
    lives = [row["e2e_ns"] for row in rows]
    label, name_of = request_of(rows)
    order = [name_of(row) for row in rows]
    tip = told(
        *("which", "outcome", "e2e_ns", "ttft_ns", "tpot_ns", "max_itl_ns"),
        *("prompt_token_count", "output_token_count"),
    )
    shown = "to the first token (full), to the end (pale)"
    spec = {
        "data": {"name": "requests"},
        "height": bar_step(len(rows)),
        "transform": [*keep, label],
        "encoding": {"y": names("which", order), "tooltip": tip},
        "layer": [
            {
                "mark": {"type": "bar", "opacity": 0.4},
                "encoding": {
                    "x": quantity("e2e_ns", lives, shown),
                    "color": {"value": PHASE["decode"].light},
                },
            },
            {
                "mark": {"type": "bar", "height": {"band": 0.45}},
                "encoding": {
                    "x": quantity("ttft_ns", lives, shown),
                    "color": {"value": PHASE["prefill"].light},
                },
            },
        ],
    }
    title = "The requests that took longest, from when they were sent"
    return Chart("requests", title, spec, {"requests": data["requests"]}, omitted)
