"""How far measurements are apart, whatever outliers do."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

_MAD_TO_SIGMA = 1.4826


def spread(series: Sequence[float]) -> float:
    """Return the standard deviation that the median distance from the median stands for.

    Args:
        series: at least one measurement.
    """
    middle = median(series)
    return _MAD_TO_SIGMA * median([abs(value - middle) for value in series])
