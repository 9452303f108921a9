"""Groups of ranks that behave alike: what a rank of each does with its window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracekit.palette import KIND
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, names, parts, quantity, told
from tracekit.plot.timeline import PARTS

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("rank_groups",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where all ranks are one group."""
    rows = data["rank_groups"].to_dicts()
    if len(rows) < 2:
        return None
    order = [_named(row) for row in rows]
    words = "(datum.rank_count === 1 ? ' rank · ' : ' ranks · ')"
    words = f"'group ' + datum.group_number + ' · ' + datum.rank_count + {words} + datum.alike"
    windows = [row["window_ns"] for row in rows]
    spec: dict[str, Any] = {
        "data": {"name": "rank_groups"},
        "height": bar_step(len(rows)),
        "transform": [
            {"calculate": words, "as": "which"},
            {"fold": [*PARTS], "as": ["part", "part_ns"]},
        ],
        "mark": {"type": "bar"},
        "encoding": {
            "y": names("which", order),
            "x": quantity("part_ns", windows, "mean time of a rank's window", stack="zero"),
            "color": parts("part", {column: KIND[kind] for column, kind in PARTS.items()}),
            "tooltip": told("which", "example_rank", "window_ns", *PARTS, "comm_wait_ns", "ranks"),
        },
    }
    # What tells a group from the others stands at the end.
    spec["encoding"]["y"]["axis"]["labelLimit"] = 400
    title = "Groups of ranks that behave alike: the mean of each"
    return Chart("rank_groups", title, spec, {"rank_groups": data["rank_groups"]})


def _named(row: Mapping[str, Any]) -> str:
    """Return a group's name as the chart writes it."""
    number, count, alike = (
        "null" if row[column] is None else row[column]
        for column in ("group_number", "rank_count", "alike")
    )
    return f"group {number} · {count} {'rank' if count == 1 else 'ranks'} · {alike}"
