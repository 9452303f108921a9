"""The upper tail of the binomial distribution, for any number of draws."""

from __future__ import annotations

import math
from statistics import NormalDist

_NORMAL = NormalDist()
_EXACT_COUNT = 500


def at_least(drawn: int, needed: int, chance: float) -> float:
    """Return how likely at least so many of the draws hit.

    Exactly up to 500 draws, and where hits or misses are few; else by the normal approximation with
    the correction for continuity.

    Args:
        drawn: the draws.
        needed: the hits.
        chance: how likely each draw hits, 0 to 1.
    """
    if chance >= 1 or needed <= 0:
        return 1.0
    if drawn > _EXACT_COUNT and 10 < drawn * chance < drawn - 10:
        spread = math.sqrt(drawn * chance * (1 - chance))
        return 1 - _NORMAL.cdf((needed - 0.5 - drawn * chance) / spread)
    # From the smaller side, by the ratio of one term to the next.
    if needed > drawn * chance:
        return _tail(drawn, needed, chance)
    return 1 - _tail(drawn, drawn - needed + 1, 1 - chance)


def _tail(drawn: int, needed: int, chance: float) -> float:
    if chance <= 0 or needed > drawn:
        return 0.0
    log = (
        math.lgamma(drawn + 1) - math.lgamma(needed + 1) - math.lgamma(drawn - needed + 1)
        + needed * math.log(chance) + (drawn - needed) * math.log1p(-chance)
    )  # fmt: skip
    term, total = math.exp(log), 0.0
    for hits in range(needed, drawn + 1):
        total += term
        term *= (drawn - hits) / (hits + 1) * chance / (1 - chance)
    return min(total, 1.0)
