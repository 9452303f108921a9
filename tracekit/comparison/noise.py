"""Whether two series of measurements differ by more than their noise: pure statistics.

Steps vary, so one number on each side says nothing. A series here is one measurement for each step
(or run, or request) of a side. Nothing is assumed about how measurements are distributed: steps
have long tails.

- The size of the difference is that of the medians. Its interval is the bootstrap's: what the
  difference would be if each side were drawn again from its own measurements. The distribution
  over all such draws is computed, not sampled, so the same series always get the same answer.
- Whether there is a difference at all is decided by the rank test of Wilcoxon, Mann and Whitney,
  exactly (over all ways to share the measurements between two sides) as long as both sides together
  have up to :data:`EXACT_COUNT` measurements. Ties are counted as what they are.
- ``same`` is said only where two intervals, that of the bootstrap and that of the rank test turned
  around (Moses), lie within the margin. So too few measurements are never ``same``.
- Steps that are like the one before them say less than so many by themselves. Where that is plain
  to see in a series, less chance is allowed: see `dependence`.

What no test can know: steps of one run share what a run has by chance (clocks, placement, other
users). Where there are several runs on each side, one number of each run is the better series.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import NormalDist, median
from typing import Literal

from tracekit.comparison.binomial import at_least
from tracekit.comparison.dependence import (
    autocorrelation,
    dependent_tail,
    doubled_ranks,
    inflation,
    widened,
)
from tracekit.comparison.pairwise import difference_at
from tracekit.comparison.spread import spread

ALPHA = 0.005
"""How often two series of the same kind may be told apart by chance; intervals are of 99.5 %.

Half of the 1 % that is promised: so it is kept over any thousand pairs, not on the average alone.
"""

MARGIN_PCT = 1.0
"""Differences up to this share of the base count as none, unless told otherwise, percent."""

POWER = 0.9
"""How surely the advised number of measurements would decide."""

EXACT_COUNT = 40
"""Up to so many measurements on both sides together, the rank test counts all cases."""

Verdict = Literal["faster", "slower", "same", "inconclusive"]

_PAIRS_OF_MIDDLES = 14
_ATOMS = 200
_SUMMED_COUNT = 1_000
_NORMAL = NormalDist()
# The asymptotic efficiency of the rank test against the t-test, for normal noise, is 3/π.
_RANK_TEST_COST = math.pi / 3
_MANY = 100_000


@dataclass(frozen=True, slots=True)
class Difference:
    """How two series of times compare; times have the unit of the series, shares are percent.

    `low` and `high` are the ends of the interval of the difference; None where there are too few
    measurements for any. `p_value` is that of the rank test. `more_count` says how many
    measurements more on each side would likely decide; None where nothing is left to decide, or
    where no number of them would do. `correlation` is that of each measurement with the one before,
    where it is plain to see, else 0; `p_value` and the interval are as wide as it takes.
    """

    base_count: int
    new_count: int
    base_median: float
    new_median: float
    difference: float
    low: float | None
    high: float | None
    p_value: float | None
    margin_pct: float
    verdict: Verdict | None
    more_count: int | None
    correlation: float = 0.0

    @property
    def difference_pct(self) -> float | None:
        """The difference in percent of the base's median; None where that is 0."""
        return _pct(self.difference, self.base_median)

    @property
    def low_pct(self) -> float | None:
        """The lower end of the interval in percent of the base's median."""
        return None if self.low is None else _pct(self.low, self.base_median)

    @property
    def high_pct(self) -> float | None:
        """The upper end of the interval in percent of the base's median."""
        return None if self.high is None else _pct(self.high, self.base_median)

    @property
    def within_pct(self) -> float | None:
        """The bound within which both sides are surely the same, percent."""
        if self.low_pct is None or self.high_pct is None:
            return None
        return max(abs(self.low_pct), abs(self.high_pct))


def compare_series(
    base: Sequence[float],
    new: Sequence[float],
    *,
    alpha: float = ALPHA,
    margin_pct: float = MARGIN_PCT,
    margin: float | None = None,
    is_in_order: bool = True,
) -> Difference:
    """Compare two series of times, or of anything of which less is better.

    Args:
        base: the measurements of the base.
        new: those of the other side.
        alpha: how often chance alone may look like a difference, 0 to 1.
        margin_pct: a difference up to this share of the base's median is none, percent.
        margin: the same as an amount, where it is a share of something else.
        is_in_order: whether measurements follow one another in time.

    Returns:
        The difference. Its verdict is None where a side has fewer than two measurements: one
        measurement tells nothing of noise.

    Raises:
        ValueError: a side has no measurement.
    """
    if not base or not new:
        raise ValueError("a series without measurements cannot be compared")
    middle = median(base), median(new)
    size = middle[1] - middle[0]
    counts = len(base), len(new)
    if min(counts) < 2:
        return Difference(*counts, *middle, size, None, None, None, margin_pct, None, None)
    correlation = autocorrelation(base, new) if is_in_order else 0.0
    p_value = rank_test(base, new)
    if correlation:
        p_value = max(p_value, dependent_tail(base, new, size, correlation))
    decided = p_value <= alpha
    alpha = widened(alpha, inflation(correlation))
    low, high = bootstrap_interval(base, new, alpha=alpha)
    turned = shift_interval(base, new, alpha=alpha)
    if margin is None:
        margin = abs(middle[0]) * margin_pct / 100
    verdict: Verdict = "inconclusive"
    if turned is not None and -margin <= min(low, turned[0]) <= max(high, turned[1]) <= margin:
        verdict = "same"
    # A difference that is surely there and surely within the margin is none that matters.
    elif decided and size != 0 and (turned is None or turned[0] * turned[1] >= 0):
        verdict = "slower" if size > 0 else "faster"
    more = None
    if verdict == "inconclusive":
        more = _more_count(base, new, abs(size), margin, alpha)
    return Difference(
        *(*counts, *middle, size, low, high, p_value, margin_pct, verdict, more, correlation)
    )


def rank_test(base: Sequence[float], new: Sequence[float]) -> float:
    """Return the two-sided p-value of the Wilcoxon-Mann-Whitney test.

    Args:
        base: measurements of one side, at least one.
        new: those of the other.

    Returns:
        How likely ranks are at least as different by chance, 0 to 1: twice the smaller tail of the
        exact distribution with the ties that there are; for long series by the normal
        approximation with the corrections for ties and continuity (Lehmann, Nonparametrics, 1.2).
    """
    ranks = doubled_ranks([*base, *new])
    observed = sum(ranks[: len(base)])
    total, taken = len(ranks), len(base)
    if total <= EXACT_COUNT:
        below, above, ways = _tails(tuple(sorted(ranks)), taken, observed)
        return min(1.0, 2 * min(below, above) / ways)
    mean = taken * (total + 1)
    # Doubled ranks, so four times the variance of ranks.
    spread = taken * (total - taken) / (total * (total - 1))
    variance = spread * sum((rank - (total + 1)) ** 2 for rank in ranks)
    if variance == 0:
        return 1.0
    distance = max(0.0, abs(observed - mean) - 1)
    return min(1.0, 2 * (1 - _NORMAL.cdf(distance / math.sqrt(variance))))


def bootstrap_interval(
    base: Sequence[float], new: Sequence[float], *, alpha: float = ALPHA
) -> tuple[float, float]:
    """Return the bootstrap's interval of the difference of the medians, new − base.

    The distribution of the median of a drawn series is known from the binomial distribution
    (Efron 1979), so none is drawn. Of an even number of measurements above
    :data:`_PAIRS_OF_MIDDLES` either of the two in the middle counts as the median, each half of
    the time, which widens the interval a little.

    Args:
        base: measurements of one side, at least one.
        new: those of the other.
        alpha: the share of the distribution that is outside, half on each side.
    """
    first, second = _median_atoms(sorted(base)), _median_atoms(sorted(new))
    joint = sorted((y - x, p * q) for x, p in first for y, q in second)
    return _quantile(joint, alpha / 2), _quantile(joint, 1 - alpha / 2)


def shift_interval(
    base: Sequence[float], new: Sequence[float], *, alpha: float = ALPHA
) -> tuple[float, float] | None:
    """Return the interval of the shift from base to new that the rank test does not exclude.

    Args:
        base: measurements of one side, at least one.
        new: those of the other.
        alpha: as for :func:`rank_test`'s decision.

    Returns:
        Its ends, two of the differences of pairs (Moses 1965); None where the test could not
        exclude anything, because there are too few measurements.
    """
    cut = _excluded_pairs(len(base), len(new), alpha)
    if cut == 0:
        return None
    last = len(base) * len(new) - 1
    return difference_at(base, new, cut - 1), difference_at(base, new, last - (cut - 1))


def least_count(alpha: float = ALPHA) -> int:
    """Return how many measurements each side needs before the rank test can tell anything."""
    count = 2
    while 2 / math.comb(2 * count, count) > alpha:
        count += 1
    return count


def _pct(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


@cache
def _distribution(ranks: tuple[int, ...], taken: int) -> tuple[int, ...]:
    """Return in how many ways so many of the ranks have each sum, by the sum.

    The counts of all sums lie side by side in the bits of one integer.
    """
    width = math.comb(len(ranks), taken).bit_length() + 1
    ways = [1] + [0] * taken
    for rank in ranks:
        for count in range(taken, 0, -1):
            ways[count] += ways[count - 1] << (rank * width)
    packed, mask = ways[taken], (1 << width) - 1
    return tuple(
        packed >> (total * width) & mask for total in range(packed.bit_length() // width + 1)
    )


def _tails(ranks: tuple[int, ...], taken: int, observed: int) -> tuple[int, int, int]:
    """Return how many ways give at most, and at least, a sum of ranks, and how many there are."""
    ways = _distribution(ranks, taken)
    return sum(ways[: observed + 1]), sum(ways[observed:]), sum(ways)


@cache
def _excluded_pairs(first: int, second: int, alpha: float) -> int:
    """Return how many of the sorted pairs' differences lie outside of the interval on a side."""
    total = first + second
    if total <= EXACT_COUNT:
        ways = _distribution(tuple(range(1, total + 1)), first)
        lowest, limit = first * (first + 1) // 2, alpha / 2 * math.comb(total, first)
        below, cut = 0, 0
        for count in ways[lowest:]:
            below += count
            if below > limit:
                break
            cut += 1
        return cut
    mean = first * second / 2
    deviation = math.sqrt(first * second * (total + 1) / 12)
    return max(0, math.floor(mean - _NORMAL.inv_cdf(1 - alpha / 2) * deviation))


def _median_atoms(ordered: Sequence[float]) -> list[tuple[float, float]]:
    """Return the values that the median of a drawn series may have, with their probabilities."""
    count = len(ordered)
    if count > _ATOMS:
        # The quantiles stand for the series.
        ordered = [ordered[(2 * place + 1) * count // (2 * _ATOMS)] for place in range(_ATOMS)]
        return _order_statistic(ordered, count)
    if count % 2 or count > _PAIRS_OF_MIDDLES:
        return _order_statistic(ordered, count)
    return [
        ((ordered[low] + ordered[high]) / 2, _middles(count, low, high))
        for low in range(count)
        for high in range(low, count)
    ]


def _order_statistic(ordered: Sequence[float], drawn: int) -> list[tuple[float, float]]:
    """Return the distribution of the middle of so many draws; of two middles, of either."""
    size = len(ordered)
    middles = {(drawn + 1) // 2, drawn // 2 + 1}
    reached = [
        sum(_at_least(drawn, middle, place / size) for middle in middles) / len(middles)
        for place in range(size + 1)
    ]
    return list(zip(ordered, (b - a for a, b in pairwise(reached)), strict=True))


@cache
def _at_least(drawn: int, needed: int, chance: float) -> float:
    """Return how likely at least so many of the draws hit."""
    if chance >= 1:
        return 1.0
    if drawn > _SUMMED_COUNT:
        return at_least(drawn, needed, chance)
    ways = _ways(drawn)
    return sum(
        ways[hits] * chance**hits * (1 - chance) ** (drawn - hits)
        for hits in range(needed, drawn + 1)
    )


@cache
def _ways(drawn: int) -> tuple[float, ...]:
    """Return in how many ways so many of the draws hit, for each number of them."""
    return tuple(float(math.comb(drawn, hits)) for hits in range(drawn + 1))


def _middles(count: int, low: int, high: int) -> float:
    """Return how likely the two in the middle of a draw are those at places low and high."""
    return (
        _both_up_to(count, low + 1, high + 1)
        - _both_up_to(count, low, high + 1)
        - _both_up_to(count, low + 1, high)
        + _both_up_to(count, low, high)
    )


@cache
def _both_up_to(count: int, first: int, second: int) -> float:
    """Return how likely one of the middles comes from so many places, the one behind from so many.

    The first one in the middle is number count / 2 of the draws in order.
    """
    first = min(first, second)
    half = count // 2
    chance = 0.0
    for front in range(half, count + 1):
        for rest in range(max(0, half + 1 - front), count - front + 1):
            ways = math.comb(count, front) * math.comb(count - front, rest)
            places = (
                first**front * (second - first) ** rest * (count - second) ** (count - front - rest)
            )
            chance += ways * places / count**count
    return chance


def _quantile(atoms: Sequence[tuple[float, float]], share: float) -> float:
    """Return the value below which a share of a distribution lies; atoms are in order."""
    reached = 0.0
    for value, chance in atoms:
        reached += chance
        if reached >= share - 1e-12:
            return value
    return atoms[-1][0]


def _more_count(
    base: Sequence[float], new: Sequence[float], size: float, margin: float, alpha: float
) -> int | None:
    """Return how many measurements more on each side would likely decide.

    Either the difference seen is real and must stand out, or it is none and must be shown to be
    within the margin: the easier of the two counts.
    """
    have = min(len(base), len(new))
    least = max(1, least_count(alpha) - have)
    sigma = math.sqrt((spread(base) ** 2 + spread(new) ** 2) / 2)
    goal = max(size, margin - size)
    if sigma == 0:
        return least
    if goal <= 0:
        return None
    z = _NORMAL.inv_cdf(1 - alpha / 2) + _NORMAL.inv_cdf(POWER)
    needed = math.ceil(2 * _RANK_TEST_COST * (z * sigma / goal) ** 2)
    return max(least, needed - have) if needed <= _MANY else None
