"""Differences of all pairs of two series, in their order, without all of them in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

_FEW_PAIRS = 100_000


def difference_at(base: Sequence[float], new: Sequence[float], place: int) -> float:
    """Return one of the differences new − base of all pairs, by its place among them.

    Many pairs are counted, not made: how many differences are below a bound is known in one pass
    over both series in order, and so the bounds between which the place lies are halved.

    Args:
        base: measurements of one side, at least one.
        new: those of the other.
        place: from 0, the smallest, to the number of pairs less one.
    """
    first, second = sorted(base), sorted(new)
    if len(first) * len(second) <= _FEW_PAIRS:
        return sorted(y - x for x in first for y in second)[place]
    low, high = second[0] - first[-1], second[-1] - first[0]
    while low < high:
        middle = low + (high - low) / 2
        if middle >= high:  # no number lies between the two
            middle = low
        count, below, above = _split(first, second, middle)
        if count > place:
            high = below
        else:
            low = above
    return low


def _split(
    first: Sequence[float], second: Sequence[float], bound: float
) -> tuple[int, float, float]:
    """Return how many differences are no more than a bound, the last of them, and the next."""
    count = at = 0
    below, above = -math.inf, math.inf
    for x in first:
        while at < len(second) and second[at] - x <= bound:
            at += 1
        count += at
        if at:
            below = max(below, second[at - 1] - x)
        if at < len(second):
            above = min(above, second[at] - x)
    return count, below, above
