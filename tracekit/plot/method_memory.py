"""How much memory each method of training took at most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.plot._by_method import NEEDS, bars_by_method

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.plot._chart import Chart

__all__ = ["NEEDS", "chart"]


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where no run of training says its memory."""
    return bars_by_method(
        "method_memory",
        "Peak memory, by method",
        data,
        "peak_bytes",
        "peak memory of the fullest rank",
    )
