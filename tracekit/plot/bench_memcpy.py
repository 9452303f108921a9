"""How fast copies were on the machine, by their size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.plot._curves import curves

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.plot._chart import Chart

NEEDS = ("bench_memcpy",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where none was measured."""
    return curves(
        data["bench_memcpy"],
        "How fast copies were, by size",
        ("message_bytes", "size of the copy"),
        ("bytes_per_s", "rate"),
        ("run", "device", "op", "memory"),
        ("median_ns", "interval_pct", "peak_pct", "device_name"),
    )
