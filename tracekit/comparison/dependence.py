"""How much measurements that follow one another are alike, and what that costs.

Chance is counted by tests as if measurements knew nothing of one another. The steps of a run on a
busy machine do: a slow one follows a slow one. Then so many say less, by a factor that the
correlation of neighbours gives (that of an autoregressive series of the first order).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist, variance

_NORMAL = NormalDist()
_LEAST_IN_ORDER = 5
_PLAIN_TO_SEE = 1.645
_MOST_CORRELATED = 0.9
_LEAST_TAIL = 1e-14


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value; equal ones share the middle of theirs.

    Args:
        values: in any order.
    """
    ordered = sorted(values)
    return [bisect_left(ordered, value) + bisect_right(ordered, value) + 1 for value in values]


def autocorrelation(base: Sequence[float], new: Sequence[float]) -> float:
    """Return how much measurements are like the one before them, where that is plain to see.

    That is the correlation of neighbours' ranks within each side, both sides together, made up for
    the mean being that of the series itself. Of independent measurements 5 % are held for
    dependent, which costs a little power.

    Args:
        base: measurements of one side, in their order.
        new: those of the other.

    Returns:
        The correlation, 0 to 0.9; 0 where chance may have made it, or a side has fewer than five.
    """
    if min(len(base), len(new)) < _LEAST_IN_ORDER:
        return 0.0
    together = whole = 0.0
    for series in (base, new):
        ranks = doubled_ranks(series)
        mean = sum(ranks) / len(ranks)
        together += sum((one - mean) * (other - mean) for one, other in pairwise(ranks))
        whole += sum((rank - mean) ** 2 for rank in ranks)
    count = len(base) + len(new)
    found = (together / whole if whole else 0.0) + 2 / count
    return min(round(found, 2), _MOST_CORRELATED) if found * count**0.5 >= _PLAIN_TO_SEE else 0.0


def inflation(correlation: float) -> float:
    """Return by what the variance of a mean grows where neighbours are alike.

    Args:
        correlation: of each measurement with the one before (AR(1)), 0 or more and below 1.
    """
    return (1 + correlation) / (1 - correlation)


def dependent_tail(
    base: Sequence[float], new: Sequence[float], size: float, correlation: float
) -> float:
    """Return how likely a difference is at least as large by chance where neighbours are alike.

    That is the normal tail, with the variance of each mean as large as the correlation makes it.
    Ranks alone would not do: of steps that rise a little they know no more than the order, however
    far the two sides are apart.

    Args:
        base: measurements of one side, at least two.
        new: those of the other.
        size: the difference.
        correlation: of neighbours, above 0.
    """
    count = len(base) + len(new) - 2
    squares = sum(variance(series) * (len(series) - 1) for series in (base, new)) / count
    deviation = math.sqrt(squares * inflation(correlation) * (1 / len(base) + 1 / len(new)))
    return 2 * (1 - _NORMAL.cdf(abs(size) / deviation)) if deviation else 0.0


def widened(p_value: float, factor: float) -> float:
    """Return the two-sided tail of a normal variable that is further out.

    Args:
        p_value: the tail at a distance, 0 to 1.
        factor: by what the square of the distance grows.
    """
    if factor == 1 or p_value >= 1:
        return p_value
    distance = _NORMAL.inv_cdf(1 - max(p_value, _LEAST_TAIL) / 2) * math.sqrt(factor)
    return max(2 * (1 - _NORMAL.cdf(distance)), _LEAST_TAIL)
