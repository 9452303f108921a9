"""Which share of the requests was answered within which time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.plot._distribution import NEEDS, distribution

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.plot._chart import Chart

__all__ = ["NEEDS", "chart"]


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None without requests."""
    title = "Which share of the requests was answered within which time"
    axes = "time to the end of a request", "requests answered within it"
    return distribution("latency_cdf", title, data, "e2e", axes)
