"""How many tokens of answers a second each serving run made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, colours, largest, names, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("throughput",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where the tokens of answers are not known."""
    keep, rows, omitted = largest(data["throughput"].to_dicts(), "output_tokens_per_s")
    if not rows:
        return None
    engines = series(sorted({str(row["engine"]) for row in rows}))
    rates = [row["output_tokens_per_s"] for row in rows]
    spec = {
        "data": {"name": "throughput"},
        "height": bar_step(len(rows)),
        "transform": [*keep, {"calculate": "datum.model + ' · ' + datum.run", "as": "which"}],
        "mark": {"type": "bar"},
        "encoding": {
            "y": names("which"),
            "x": quantity("output_tokens_per_s", rates, "tokens of answers"),
            "color": colours("engine", engines),
            "tooltip": told(
                *("run", "model", "engine", "output_tokens_per_s", "total_tokens_per_s"),
                *("requests_per_s", "ok_count", "answered_pct", "outcome"),
            ),
        },
    }
    title = "Throughput of serving"
    return Chart("throughput", title, spec, {"throughput": data["throughput"]}, omitted)
