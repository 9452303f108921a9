"""Which share of the requests had their first token within which time (TTFT)."""

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
    title = "Time to the first token (TTFT)"
    axes = "time to the first token", "requests with a token within it"
    return distribution("ttft_cdf", title, data, "ttft", axes)
