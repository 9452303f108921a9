"""What a series of steps shows besides its noise: warm-up, outliers, drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, median

from tracekit.comparison.noise import ALPHA
from tracekit.comparison.spread import spread

_NORMAL = NormalDist()
_MOST = 1_000


def outliers(series: Sequence[float]) -> list[int]:
    """Return the places of measurements far above or below all others.

    Far is more than five standard deviations, estimated from the median of distances from the
    median, and more than 1 % of the median.
    """
    if len(series) < 4:
        return []
    middle = median(series)
    limit = max(5 * spread(series), abs(middle) / 100)
    return [place for place, value in enumerate(series) if abs(value - middle) > limit]


def warm_up_count(series: Sequence[float]) -> int:
    """Return how many measurements at the beginning are outliers above the rest: a warm-up."""
    middle = median(series)
    high = {place for place in outliers(series) if series[place] > middle}
    count = 0
    while count in high:
        count += 1
    return count


def drift_pct(series: Sequence[float], *, alpha: float = ALPHA) -> float | None:
    """Return by how much a series rises from its first to its last measurement, if it does.

    Args:
        series: measurements in their order.
        alpha: how often chance alone may look like a drift.

    Returns:
        The slope (Theil and Sen) over the whole series in percent of the median; None where the
        test of Mann and Kendall sees no drift. Of more than 1,000 measurements neighbours count as
        one, by their median: every pair of measurements is looked at.
    """
    series = _thinned(series)
    count = len(series)
    if count < 5:
        return None
    signs = sum(
        (later > earlier) - (later < earlier)
        for place, earlier in enumerate(series)
        for later in series[place + 1 :]
    )
    variance = count * (count - 1) * (2 * count + 5) / 18
    z = max(0, abs(signs) - 1) / math.sqrt(variance)
    if 2 * (1 - _NORMAL.cdf(z)) > alpha or median(series) == 0:
        return None
    slopes = [
        (series[right] - series[left]) / (right - left)
        for left in range(count)
        for right in range(left + 1, count)
    ]
    return 100 * median(slopes) * (count - 1) / median(series)


def _thinned(series: Sequence[float]) -> Sequence[float]:
    length = -(-len(series) // _MOST)
    if length <= 1:
        return series
    return [median(series[at : at + length]) for at in range(0, len(series), length)]
