"""The bootstrap of one rank of a series: its median, or another percentile.

The distribution of a rank over all ways to draw a series again from its own values is known from
the binomial distribution (Efron 1979). So none is drawn, and the same series always get the same
answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

_NORMAL = NormalDist()
_EXACT_COUNT = 1_000
_ATOMS = 200
_REACH = 6.0


@cache
def drawn_places(count: int, rank: int, *, is_whole: bool = False) -> Sequence[tuple[int, float]]:
    """Return from which places the value at one rank of a drawn series comes, and how likely.

    Places are those of the series in order, from 0, and ranks go from 1. Unless it is the whole,
    places further than six standard deviations from the rank are left out, which is none for
    intervals of usual widths; of many neighbours one stands for all.
    """
    reach = math.ceil(_REACH * math.sqrt(rank * (count - rank + 1) / count)) + 1
    first, last = max(0, rank - 1 - reach), min(count, rank + reach)
    if is_whole:
        first, last = 0, count
    stride = max(1, (last - first) // _ATOMS)
    places = [*range(first, last, stride), last]
    reached = [0.0, *(at_least(count, rank, place / count) for place in places[1:-1]), 1.0]
    return [
        ((place + following - 1) // 2, after - before)
        for place, following, before, after in zip(
            places, places[1:], reached, reached[1:], strict=False
        )
    ]


Atoms = Sequence[tuple[float, float]]
"""Values with their probabilities."""


def interval_of_difference(base: Atoms, new: Atoms, alpha: float) -> tuple[float, float]:
    """Return between what new − base lies, but for a share of cases, half of it on each side."""
    joint = sorted((y - x, p * q) for x, p in base for y, q in new)
    return _quantile(joint, alpha / 2), _quantile(joint, 1 - alpha / 2)


def _quantile(atoms: Atoms, share: float) -> float:
    """Return the value below which a share of a distribution lies; atoms are in order."""
    reached = 0.0
    for value, chance in atoms:
        reached += chance
        if reached >= share - 1e-12:
            return value
    return atoms[-1][0]


def at_least(drawn: int, needed: int, chance: float) -> float:
    """Return how likely at least so many of the draws hit.

    Exactly up to 1,000 draws, and where hits or misses are few; else by the normal approximation
    with the correction for continuity.
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
