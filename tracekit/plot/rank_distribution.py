"""How each part of the time is spread over the ranks: the least, the median, the most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import BLUE, SKY, VERMILLION
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, names, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("rank_distribution",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None of fewer than two ranks."""
    rows = [row for row in data["rank_distribution"].to_dicts() if row["rank_count"] > 1]
    if not rows:
        return None
    x = quantity("min_ns", [row["max_ns"] for row in rows], "least to most; median, 95 % (orange)")
    tip = told(
        *("part", "min_ns", "min_rank", "median_ns", "median_rank", "p95_ns", "p95_rank"),
        *("max_ns", "max_rank", "spread_pct"),
    )
    dots = [("p95_ns", VERMILLION), ("median_ns", BLUE)]
    spec = {
        "data": {"name": "rank_distribution"},
        "height": bar_step(len(rows)),
        "transform": [{"filter": {"field": "rank_count", "gt": 1}}],
        "encoding": {"y": names("part", [row["part"] for row in rows]), "tooltip": tip},
        "layer": [
            {
                "mark": {"type": "bar", "height": {"band": 0.4}},
                "encoding": {"x": x, "x2": {"field": "max_ns"}, "color": {"value": SKY.light}},
            },
            *(
                {
                    "mark": {"type": "point", "filled": True, "size": 60},
                    "encoding": {"x": {**x, "field": column}, "color": {"value": colour.light}},
                }
                for column, colour in dots
            ),
        ],
    }
    title = "How each part of the time is spread over the ranks"
    return Chart("rank_distribution", title, spec, {"rank_distribution": data["rank_distribution"]})
