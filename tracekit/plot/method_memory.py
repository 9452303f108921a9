"""How much memory each method of training took at most."""

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
    """Return the chart; None where no run of training says its memory."""
    keep, rows, omitted = largest(data["methods"].to_dicts(), "peak_bytes")
    if not rows:
        return None
    label, name_of = joined("model", "method", "run")
    sizes = [row["peak_bytes"] for row in rows]
    stages = series(sorted({row["stage"] for row in rows}))
    spec = {
        "data": {"name": "methods"},
        "height": bar_step(len(rows)),
        "transform": [*keep, label],
        "mark": {"type": "bar"},
        "encoding": {
            "y": names("which", [name_of(row) for row in rows]),
            "x": quantity("peak_bytes", sizes, "peak memory of the fullest rank"),
            "color": colours("stage", stages),
            "tooltip": told(
                *("run", "model", "method", "engine", "world_size", "batch_size"),
                *("mean_tokens_per_s", "std_tokens_per_s", "peak_bytes"),
            ),
        },
    }
    title = "Peak memory, by method"
    return Chart("method_memory", title, spec, {"methods": data["methods"]}, omitted)
