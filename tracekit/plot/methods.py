"""How many tokens a second each method of training reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, colours, joined, largest, names, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("methods",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where no run of training says its rate."""
    keep, rows, omitted = largest(data["methods"].to_dicts(), "mean_tokens_per_s")
    if not rows:
        return None
    label, name_of = joined("model", "method", "run")
    rates = [row["mean_tokens_per_s"] for row in rows]
    stages = series(sorted({row["stage"] for row in rows}))
    spec = {
        "data": {"name": "methods"},
        "height": bar_step(len(rows)),
        "transform": [*keep, label],
        "mark": {"type": "bar"},
        "encoding": {
            "y": names("which", [name_of(row) for row in rows]),
            "x": quantity("mean_tokens_per_s", rates, "tokens of all ranks"),
            "color": colours("stage", stages),
            "tooltip": told(
                *("run", "model", "method", "engine", "world_size", "batch_size"),
                *("mean_tokens_per_s", "std_tokens_per_s", "peak_bytes"),
            ),
        },
    }
    title = "Tokens a second, by method"
    return Chart("methods", title, spec, {"methods": data["methods"]}, omitted)
