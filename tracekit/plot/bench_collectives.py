"""How fast collectives were on the machine, by the size of their message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.plot._curves import curves

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.plot._chart import Chart

NEEDS = ("bench_collectives",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where none was measured."""
    return curves(
        data["bench_collectives"],
        "How fast collectives were, by size",
        ("message_bytes", "size of the message"),
        ("bus_bytes_per_s", "bus bandwidth"),
        ("run", "op", "backend", "group_size"),
        ("algorithm_bytes_per_s", "median_ns", "interval_pct", "device_name"),
    )
