"""Which share of the tokens came how soon behind the token before (inter-token latency)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.plot._distribution import NEEDS, distribution

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.plot._chart import Chart

__all__ = ["NEEDS", "chart"]


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where the client does not know when tokens came."""
    title = "Time between two tokens (inter-token latency)"
    axes = "time since the token before", "tokens that came within it"
    return distribution("itl_cdf", title, data, "itl", axes)
