"""Which share of the requests waited how long for the engine to begin them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.plot._distribution import line_of_shares

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.plot._chart import Chart

NEEDS = ("queue_cdf",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where no trace holds the first step of a request."""
    rows = data["queue_cdf"].to_dicts()
    if not rows:
        return None
    title = "How long requests queued, from when they were sent to their first step"
    axes = "time in the queue", "requests with no more"
    return line_of_shares("queue_cdf", title, data["queue_cdf"], rows, axes)
