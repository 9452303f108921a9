"""What matrix products reached on the machine, by their number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.plot._curves import curves

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.plot._chart import Chart

NEEDS = ("bench_gemm",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where none was measured."""
    return curves(
        data["bench_gemm"],
        "What matrix products reached, by size",
        ("m", "rows of the product (M)"),
        ("flop_per_s", "reached"),
        ("run", "device", "op", "dtype", "series"),
        ("n", "k", "peak_pct", "median_ns", "interval_pct", "device_name"),
        has_log_rate=False,
    )
