"""How many tokens a second came, moment by moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("throughput_over_time",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where the client does not know when tokens came."""
    rows = [
        row
        for row in data["throughput_over_time"].to_dicts()
        if row["output_tokens_per_s"] is not None
    ]
    if not rows:
        return None
    runs = list(dict.fromkeys(row["run"] for row in rows))
    times, rates = ([row[c] for row in rows] for c in ("start_ns", "output_tokens_per_s"))
    spec = {
        "data": {"name": "throughput_over_time"},
        "height": 220,
        "transform": [{"filter": {"field": "output_tokens_per_s", "valid": True}}],
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5},
        "encoding": {
            "x": quantity(
                "start_ns", times, "time since the start of the load", scale={"nice": False}
            ),
            "y": quantity("output_tokens_per_s", rates, "tokens of answers"),
            "color": colours("run", series(runs)),
            "tooltip": told(
                "run", "start_ns", "dur_ns", "output_token_count", "output_tokens_per_s"
            ),
        },
    }
    title = "How many tokens a second came, moment by moment"
    return Chart(
        "throughput_over_time",
        title,
        spec,
        {"throughput_over_time": data["throughput_over_time"]},
    )
