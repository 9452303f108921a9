"""Which share of the requests took at most how long for each further token (TPOT)."""

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
    title = "Time for each further token, of whole requests (TPOT)"
    axes = "time for each further token", "requests with no more"
    return distribution("tpot_cdf", title, data, "tpot", axes)
