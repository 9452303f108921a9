"""How much faster more devices are: tokens a second over those of the fewest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, joined, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("scaling",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where no two runs differ in their number of ranks alone."""
    rows = [row for row in data["scaling"].to_dicts() if row["speedup"] is not None]
    label, name_of = joined(
        *("model", "stage", "method", "engine", "batch_size", "sequence_length")
    )
    sizes: dict[str, set[int]] = {}
    for row in rows:
        sizes.setdefault(name_of(row), set()).add(row["world_size"])
    labels = [name for name, found in sizes.items() if len(found) > 1]
    if not labels:
        return None
    size = quantity("world_size", [], "ranks")
    size["axis"]["tickMinStep"] = 1
    spec = {
        "data": {"name": "scaling"},
        "height": 260,
        "transform": [
            {"filter": {"field": "speedup", "valid": True}},
            label,
            {"filter": {"field": "which", "oneOf": labels}},
        ],
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": size,
            "y": quantity("speedup", [], "tokens/s over those of the base"),
            "color": colours("which", series(labels)),
            "tooltip": told(
                *("which", "device", "world_size", "base_world_size", "speedup"),
                *("efficiency_pct", "mean_tokens_per_s", "run"),
            ),
        },
    }
    title = "How much faster more ranks are"
    return Chart("scaling", title, spec, {"scaling": data["scaling"]})
