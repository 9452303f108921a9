"""Differences of percentiles and of rates, with intervals: pure statistics.

- The distribution of a percentile over all ways to draw a series again from its own values is known
  from the binomial distribution (Efron 1979), so none is drawn.
- A percentile whose interval would reach the largest or the smallest value has none: nothing is
  known of what lies beyond. So a 99th percentile takes about 500 requests.
- A rate is a sum over a sum of times. What follows each other is alike, so blocks of neighbours are
  drawn (Künsch 1989), always the same ones.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from tracekit.comparison.noise import ALPHA, Verdict, compare_series
from tracekit.units import NS_PER_S

_NORMAL = NormalDist()
_ATOMS = 200
_EXACT_COUNT = 500
_REACH = 6.0
_DRAWS = 4_000
_MAX_BLOCKS = 200
_MANY = 10_000
LEAST_BLOCKS = 8
"""With fewer blocks on a side a rate has no interval."""


@dataclass(frozen=True, slots=True)
class Interval:
    """One figure on both sides, and the interval of its difference, in the unit of the figure.

    `low` and `high` are None, and `verdict` is `inconclusive`, where there are too few values;
    `more_count` says how many more on each side would give an interval, if that is known.
    """

    base_count: int
    new_count: int
    base: float
    new: float
    low: float | None
    high: float | None
    verdict: Verdict
    more_count: int | None

    @property
    def difference(self) -> float:
        """How much more it is on the new side."""
        return self.new - self.base


def quantile_difference(
    base: Sequence[int],
    new: Sequence[int],
    quantile: int,
    *,
    alpha: float = ALPHA,
    margin_pct: float = 1.0,
) -> Interval:
    """Compare a percentile of two series of times.

    Args:
        base: the values of the base, at least one.
        new: those of the new side, at least one.
        quantile: which percentile; nearest rank, 1 to 99.
        alpha: how often chance alone may look like a difference, 0 to 1.
        margin_pct: a difference up to this share of the base is none, percent.
    """
    sides = sorted(base), sorted(new)
    counts = len(base), len(new)
    values = (
        float(sides[0][_rank(counts[0], quantile) - 1]),
        float(sides[1][_rank(counts[1], quantile) - 1]),
    )
    needed = _least_count(quantile, alpha)
    if not all(_is_inside(count, quantile, alpha) for count in counts):
        more = max(1, needed - min(counts))
        return Interval(*counts, *values, None, None, "inconclusive", more)
    first, second = (_atoms(side, _rank(len(side), quantile)) for side in sides)
    joint = sorted((y - x, p * q) for x, p in first for y, q in second)
    low, high = _share(joint, alpha / 2), _share(joint, 1 - alpha / 2)
    verdict = _verdict(low, high, abs(values[0]) * margin_pct / 100)
    if quantile == 50 and verdict != "same":
        # Of the median the rank test says more, as it does of steps.
        verdict = (
            compare_series(base, new, alpha=alpha, margin_pct=margin_pct, is_in_order=False).verdict
            or verdict
        )
    return Interval(*counts, *values, low, high, verdict, None)


def rate_difference(
    base: Sequence[tuple[int, int]],
    new: Sequence[tuple[int, int]],
    *,
    alpha: float = ALPHA,
    margin_pct: float = 1.0,
) -> Interval:
    """Compare a rate per second; more is faster.

    Args:
        base: amounts with the time that each took, ns, in their order; at least one.
        new: those of the new side.
        alpha: how often chance alone may look like a difference, 0 to 1.
        margin_pct: a difference up to this share of the base is none, percent.
    """
    values = _rate(base), _rate(new)
    counts = len(base), len(new)
    blocks = [_blocks(side) for side in (base, new)]
    if min(map(len, blocks)) < LEAST_BLOCKS:
        return Interval(*counts, *values, None, None, "inconclusive", None)
    source = random.Random(0)
    # As a ratio: a rate is never below nothing, and few answers make it vary manifold.
    drawn = sorted(
        _rate(source.choices(blocks[1], k=len(blocks[1])))
        / (_rate(source.choices(blocks[0], k=len(blocks[0]))) or math.inf)
        for _ in range(_DRAWS)
    )
    at = int(alpha / 2 * _DRAWS)
    low, high = (values[0] * (ratio - 1) for ratio in (drawn[at], drawn[-at - 1]))
    said = _verdict(-high, -low, abs(values[0]) * margin_pct / 100)
    return Interval(*counts, *values, low, high, said, None)


def _verdict(low: float, high: float, margin: float) -> Verdict:
    if -margin <= low <= high <= margin:
        return "same"
    if low > 0 or high < 0:
        return "slower" if low > 0 else "faster"
    return "inconclusive"


def _rate(pairs: Sequence[tuple[int, int]]) -> float:
    time_ns = sum(time for _, time in pairs)
    return NS_PER_S * sum(amount for amount, _ in pairs) / time_ns if time_ns else 0.0


def _blocks(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sum neighbours, as many as the cube root of their number says, so that blocks are alike."""
    length = max(round(len(pairs) ** (1 / 3)), math.ceil(len(pairs) / _MAX_BLOCKS))
    return [
        (sum(a for a, _ in pairs[at : at + length]), sum(t for _, t in pairs[at : at + length]))
        for at in range(0, len(pairs), length)
    ]


def _rank(count: int, quantile: int) -> int:
    """Return the nearest rank of a percentile, from 1."""
    return max(1, -(-quantile * count // 100))


def _is_inside(count: int, quantile: int, alpha: float) -> bool:
    """Whether the percentile of a draw is hardly ever the smallest or the largest value."""
    rank = _rank(count, quantile)
    if count < 2:
        return False
    largest = 1 - _at_least(count, rank, (count - 1) / count)
    return largest <= alpha / 2 and _at_least(count, rank, 1 / count) <= alpha / 2


def _least_count(quantile: int, alpha: float) -> int:
    count = 2
    while count < _MANY and not _is_inside(count, quantile, alpha):
        count += 1
    return count


def _at_least(drawn: int, needed: int, chance: float) -> float:
    """Return how likely at least so many of the draws hit."""
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


def _atoms(ordered: Sequence[int], rank: int) -> list[tuple[int, float]]:
    """Return the values that one rank of a drawn series may have, with their probabilities."""
    count = len(ordered)
    reach = math.ceil(_REACH * math.sqrt(rank * (count - rank + 1) / count)) + 1
    first, last = max(0, rank - 1 - reach), min(count, rank + reach)
    stride = max(1, (last - first) // _ATOMS)
    places = [*range(first, last, stride), last]
    reached = [0.0, *(_at_least(count, rank, place / count) for place in places[1:-1]), 1.0]
    return [
        (ordered[(place + following - 1) // 2], after - before)
        for place, following, before, after in zip(
            places, places[1:], reached, reached[1:], strict=False
        )
    ]


def _share(atoms: Sequence[tuple[float, float]], share: float) -> float:
    reached = 0.0
    for value, chance in atoms:
        reached += chance
        if reached >= share - 1e-12:
            return value
    return atoms[-1][0]
