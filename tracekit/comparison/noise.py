"""Whether two series of measurements differ by more than their noise: pure statistics.

Steps vary, so one number on each side says nothing. A series here is one measurement for each step
(or run, or request) of a side. Nothing is assumed about how measurements are distributed: steps
have long tails.

- The size of the difference is that of the medians. Its interval is the bootstrap's: what the
  difference would be if each side were drawn again from its own measurements. The distribution
  over all such draws is computed, not sampled: see `bootstrap`.
- Whether there is a difference at all is decided by the rank test of Wilcoxon, Mann and Whitney,
  exactly (over all ways to share the measurements between two sides) as long as both sides together
  have up to :data:`EXACT_COUNT` measurements. Ties are counted as what they are.
- Of so few measurements that ranks cannot decide, three and three for example, a difference counts
  that is larger than all variation within the sides and that Welch's t test of the logarithms
  finds, at :data:`FEW_ALPHA`. That takes logarithms of times for about normal.
- ``same`` is said only where two intervals, that of the bootstrap and that of the rank test turned
  around (Moses), lie within the margin. So too few measurements are never ``same``.
- Chance is counted as if measurements knew nothing of one another. The steps of a run on a busy
  machine do: a slow one follows a slow one. Then so many say less, by a factor that the correlation
  of neighbours gives (that of an autoregressive series of the first order). Where that is plain to
  see in a series, less chance is allowed.

What no test can know: steps of one run share what a run has by chance (clocks, placement, other
users). Where there are several runs on each side, one number of each run is the better series.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import NormalDist, median, variance
from typing import Literal, TypeAlias

from tracekit.comparison.bootstrap import drawn_places, interval_of_difference

ALPHA = 0.005
"""How often two series of the same kind may be told apart by chance; intervals are of 99.5 %.

Half of the 1 % that is promised: so it is kept over any thousand pairs, not on the average alone.
"""

FEW_ALPHA = ALPHA / 5
"""The same where so few measurements decide that ranks could not.

Of steps of an H200, drawn three and three from ten of one loop, 0.17 % are told apart, of steps in
a row 0.3 %.
"""

MARGIN_PCT = 1.0
"""Differences up to this share of the base count as none, unless told otherwise, percent."""

POWER = 0.9
"""How surely the advised number of measurements would decide."""

EXACT_COUNT = 40
"""Up to so many measurements on both sides together, the rank test counts all cases."""

Verdict = Literal["faster", "slower", "same", "inconclusive"]

Gain: TypeAlias = "tuple[float, float | None, float | None, Verdict | None]"
"""By how much a time gets shorter, the least and the most of that, all in percent; the verdict."""

_PAIRS_OF_MIDDLES = 14
_FEW_PAIRS = 100_000
_LEAST_IN_ORDER = 5
_PLAIN_TO_SEE = 1.645
_MOST_CORRELATED = 0.9
_LEAST_TAIL = 1e-14
_MAD_TO_SIGMA = 1.4826
_NORMAL = NormalDist()
# The asymptotic efficiency of the rank test against the t-test, for normal noise, is 3/π.
_RANK_TEST_COST = math.pi / 3
_MANY = 100_000
_SIMPSON = 512


@dataclass(frozen=True, slots=True)
class Difference:
    """How two series of times compare; times have the unit of the series, shares are percent.

    `low` and `high` are the ends of the interval of the difference; None where there are too few
    measurements for any. `p_value` is that of the rank test. `more_count` says how many
    measurements more on each side would likely decide; None where nothing is left to decide, or
    where no number of them would do. `correlation` is that of each measurement with the one before,
    where it is plain to see, else 0; `p_value` and the interval are as wide as it takes.
    `is_apart` says whether all measurements of one side are below all of the other.
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
    is_apart: bool = False

    @property
    def needed_count(self) -> int | None:
        """How many each side takes before ranks can decide; None where there are as many."""
        least = least_count()
        return least if min(self.base_count, self.new_count) < least else None

    @property
    def difference_pct(self) -> float | None:
        """The difference in percent of the base's median; None where that is 0."""
        return share_pct(self.difference, self.base_median)

    @property
    def low_pct(self) -> float | None:
        """The lower end of the interval in percent of the base's median."""
        return share_pct(self.low, self.base_median)

    @property
    def high_pct(self) -> float | None:
        """The upper end of the interval in percent of the base's median."""
        return share_pct(self.high, self.base_median)

    @property
    def gain(self) -> Gain:
        """By how much the new side takes less."""
        least, most = (None if pct is None else -pct for pct in (self.high_pct, self.low_pct))
        return -(self.difference_pct or 0.0), least, most, self.verdict

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
    if 2 / math.comb(sum(counts), counts[0]) > alpha:
        few = few_test(base, new)
        if few is not None and few <= alpha * FEW_ALPHA / ALPHA:
            decided, p_value = True, few
    alpha = widened(alpha, inflation(correlation))
    low, high = bootstrap_interval(base, new, alpha=alpha)
    if min(*base, *new) >= 0:  # no time gets shorter than nothing
        low = max(low, -middle[0])
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
        *(*counts, *middle, size, low, high, p_value, margin_pct, verdict, more, correlation),
        is_apart=max(base) < min(new) or max(new) < min(base),
    )


def rank_test(base: Sequence[float], new: Sequence[float]) -> float:
    """Return the two-sided p-value of the Wilcoxon-Mann-Whitney test.

    Returns:
        How likely ranks are at least as different by chance, 0 to 1: twice the smaller tail of the
        exact distribution with the ties that there are; for long series by the normal
        approximation with the corrections for ties and continuity (Lehmann, Nonparametrics, 1.2).
    """
    ranks = doubled_ranks([*base, *new])
    observed = sum(ranks[: len(base)])
    total, taken = len(ranks), len(base)
    if total <= EXACT_COUNT:
        ways = _distribution(tuple(sorted(ranks)), taken)
        return min(1.0, 2 * min(sum(ways[: observed + 1]), sum(ways[observed:])) / sum(ways))
    mean = taken * (total + 1)
    # Doubled ranks, so four times the variance of ranks.
    share = taken * (total - taken) / (total * (total - 1))
    squares = share * sum((rank - (total + 1)) ** 2 for rank in ranks)
    if squares == 0:
        return 1.0
    distance = max(0.0, abs(observed - mean) - 1)
    return min(1.0, 2 * (1 - _NORMAL.cdf(distance / math.sqrt(squares))))


def few_test(base: Sequence[float], new: Sequence[float]) -> float | None:
    """Return the two-sided p-value of Welch's t test of the logarithms.

    Returns:
        How likely a difference is at least as large by chance, 0 to 1; None of fewer than three on
        a side, or where the sides are no further apart than measurements within one are.
    """
    if min(len(base), len(new)) < 3 or min(*base, *new) <= 0:
        return None
    between = max(min(new) - max(base), min(base) - max(new))
    if between <= max(max(base) - min(base), max(new) - min(new)):
        return None
    logs = [[math.log(value) for value in series] for series in (base, new)]
    squares = [variance(series) / len(series) for series in logs]
    if sum(squares) == 0:
        return 0.0
    t = (sum(logs[0]) / len(base) - sum(logs[1]) / len(new)) / math.sqrt(sum(squares))
    freedom = sum(squares) ** 2 / sum(
        square**2 / (len(series) - 1) for square, series in zip(squares, logs, strict=True)
    )
    return student_tail(t, freedom)


def student_tail(t: float, freedom: float) -> float:
    """Return how likely a variable with Student's t distribution is at least as far from 0.

    By the integral of its density over the angle whose tangent is t / √freedom (Abramowitz and
    Stegun, 26.7), by Simpson's rule.
    """
    outer = math.atan2(math.sqrt(freedom), abs(t))
    norm = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    # The cosine of the angle is the sine of what is left of a right one: from there on is the tail.
    step = outer / _SIMPSON
    heights = [math.sin(place * step) ** (freedom - 1) for place in range(1, _SIMPSON)]
    inner = 4 * sum(heights[::2]) + 2 * sum(heights[1::2])
    first = 1.0 if freedom == 1 else 0.0
    area: float = step / 3 * (first + inner + math.sin(outer) ** (freedom - 1))
    return min(1.0, 2 * norm * area)


def bootstrap_interval(
    base: Sequence[float], new: Sequence[float], *, alpha: float = ALPHA
) -> tuple[float, float]:
    """Return the bootstrap's interval of the difference of the medians, new − base.

    Of an even number of measurements above :data:`_PAIRS_OF_MIDDLES` either of the two in the
    middle counts as the median, each half of the time, which widens the interval a little.
    """
    return interval_of_difference(_median_atoms(base), _median_atoms(new), alpha)


def shift_interval(
    base: Sequence[float], new: Sequence[float], *, alpha: float = ALPHA
) -> tuple[float, float] | None:
    """Return the interval of the shift from base to new that the rank test does not exclude.

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


def share_pct(part: float | None, whole: float) -> float | None:
    """Return a part in percent of a whole; None without either."""
    return 100 * part / whole if whole and part is not None else None


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


def _median_atoms(series: Sequence[float]) -> list[tuple[float, float]]:
    """Return the values that the median of a drawn series may have, with their probabilities."""
    ordered, count = sorted(series), len(series)
    half = count // 2
    if count % 2 == 0 and count <= _PAIRS_OF_MIDDLES:
        atoms = []
        for low, of_low in drawn_places(count, half, is_whole=True):
            # One half of the draws lies at or below a place, its last there, the other above it.
            of_pairs = [
                math.comb(count, half)
                * ((low + 1) ** half - low**half)
                * ((count - high) ** half - (count - high - 1) ** half)
                / count**count
                for high in range(low + 1, count)
            ]
            atoms.append((ordered[low], of_low - sum(of_pairs)))
            middles_above = ((ordered[low] + value) / 2 for value in ordered[low + 1 :])
            atoms += zip(middles_above, of_pairs, strict=True)
        return atoms
    middles = {(count + 1) // 2, half + 1}
    chances: dict[int, float] = defaultdict(float)
    for middle in middles:
        for place, chance in drawn_places(count, middle, is_whole=True):
            chances[place] += chance / len(middles)
    return [(ordered[place], chance) for place, chance in chances.items()]


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


def spread(series: Sequence[float]) -> float:
    """Return the standard deviation that the median distance from the median stands for."""
    middle = median(series)
    return _MAD_TO_SIGMA * median([abs(value - middle) for value in series])


# -- measurements that are like the one before them ------------------------------------------------


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value; equal ones share the middle of theirs."""
    ordered = sorted(values)
    return [bisect_left(ordered, value) + bisect_right(ordered, value) + 1 for value in values]


def autocorrelation(base: Sequence[float], new: Sequence[float]) -> float:
    """Return how much measurements are like the one before them, where that is plain to see.

    That is the correlation of neighbours' ranks within each side, both sides together, made up for
    the mean being that of the series itself. Of independent measurements 5 % are held for
    dependent, which costs a little power.

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
    """
    count = len(base) + len(new) - 2
    squares = sum(variance(series) * (len(series) - 1) for series in (base, new)) / count
    deviation = math.sqrt(squares * inflation(correlation) * (1 / len(base) + 1 / len(new)))
    return 2 * (1 - _NORMAL.cdf(abs(size) / deviation)) if deviation else 0.0


def widened(p_value: float, factor: float) -> float:
    """Return the two-sided tail of a normal variable that is further out."""
    if factor == 1 or p_value >= 1:
        return p_value
    distance = _NORMAL.inv_cdf(1 - max(p_value, _LEAST_TAIL) / 2) * math.sqrt(factor)
    return max(2 * (1 - _NORMAL.cdf(distance)), _LEAST_TAIL)


# -- differences of all pairs, in their order, without all of them in memory -----------------------


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
