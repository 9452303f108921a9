"""Which share of the requests the client held back how long before it sent them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.plot._distribution import NEEDS, distribution

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.plot._chart import Chart

__all__ = ["NEEDS", "chart"]


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where it held none back."""
    title = "How long the client held requests back before it sent them"
    axes = "time that it was held back", "requests with no more"
    return distribution("client_wait_cdf", title, data, "client_wait", axes)
