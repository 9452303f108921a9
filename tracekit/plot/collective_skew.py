"""Collectives in which ranks waited for each other: transfer, and the longest wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import GREY, VERMILLION
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, largest, names, parts, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("collective_skew",)


def _text(value: object) -> str:
    """Return a value as Vega's expressions write it."""
    return "null" if value is None else str(value)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where nothing is matched."""
    found = [row for row in data["collective_skew"].to_dicts() if row["number"] is not None]
    keep, rows, omitted = largest(found, "max_wait_ns", 25)
    if not rows:
        return None
    rows = sorted(rows, key=lambda row: -row["max_dur_ns"])
    shares = {"transfer_ns": GREY, "max_wait_ns": VERMILLION}
    # Few traces name their groups; where none does, there is nothing to tell apart.
    has_groups = any(row["pg_name"] is not None for row in rows)
    group = " + ' ' + datum.pg_name" if has_groups else ""
    label = {"calculate": f"datum.class{group} + ' #' + datum.number", "as": "which"}
    order = [
        f"{row['class']}{' ' + _text(row['pg_name']) if has_groups else ''} #{row['number']}"
        for row in rows
    ]
    spec = {
        "data": {"name": "collective_skew"},
        "height": bar_step(len(rows)),
        "transform": [
            {"filter": {"field": "number", "valid": True}},
            *keep,
            label,
            {"fold": list(shares), "as": ["part", "part_ns"]},
        ],
        "mark": {"type": "bar"},
        "encoding": {
            "y": names("which", order),
            "x": quantity(
                "part_ns",
                [row["max_dur_ns"] for row in rows],
                "duration on the rank that waited longest",
                stack="zero",
            ),
            "color": parts("part", shares),
            "tooltip": told(
                "which",
                "transfer_ns",
                "max_wait_ns",
                "straggler_rank",
                "longest_waiting_rank",
                "message_bytes",
            ),
        },
    }
    title = "In which collectives ranks waited longest for each other"
    return Chart(
        "collective_skew", title, spec, {"collective_skew": data["collective_skew"]}, omitted
    )
