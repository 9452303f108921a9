"""Statistical tests, intervals, and distributions for the entire package.

scipy.stats has most of them, but would make a comparison of two small traces 1.8 times as slow and
add 230 MB of packages.

The distribution of an order statistic over all bootstrap resamples follows from the binomial
distribution (Efron 1979). No random draws are needed, and results are deterministic.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from statistics import NormalDist, fmean, median, variance

ALPHA = 0.005
"""False-positive rate of the tests; intervals are 99.5 % intervals.

Half of the documented 1 %, so that this limit holds for any thousand pairs, not only on average.
"""

EXACT_COUNT = 40
"""Maximum total number of measurements on both sides for which the rank test is exact."""

_NORMAL = NormalDist()
_PAIRS_OF_MIDDLES = 14
_FEW_PAIRS = 100_000
_MIN_IN_ORDER = 5
_PLAIN_TO_SEE = 1.645
_MAX_CORRELATED = 0.9
_MIN_TAIL = 1e-14
_MAD_TO_SIGMA = 1.4826
_SIMPSON = 512
_EXACT_DRAWS = 1_000
_ATOMS = 200
_REACH = 6.0


@cache
def drawn_places(count: int, rank: int, *, is_whole: bool = False) -> Sequence[tuple[int, float]]:
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
    """Return the interval of new − base with coverage 1 − `alpha` and equal tails."""
    joint = sorted((y - x, p * q) for x, p in base for y, q in new)
    return _quantile(joint, alpha / 2), _quantile(joint, 1 - alpha / 2)


def _quantile(atoms: Atoms, share: float) -> float:
    reached = 0.0
    for value, chance in atoms:
        reached += chance
        if reached >= share - 1e-12:
            return value
    return atoms[-1][0]


def at_least(drawn: int, needed: int, chance: float) -> float:
    """Return the probability of at least `needed` hits in `drawn` draws.

    Exact for up to 1,000 draws, or for few hits or misses; else the normal approximation with
    continuity correction.
    """
    if chance >= 1 or needed <= 0:
        return 1.0
    if drawn > _EXACT_DRAWS and 10 < drawn * chance < drawn - 10:
        spread = math.sqrt(drawn * chance * (1 - chance))
        return 1 - _NORMAL.cdf((needed - 0.5 - drawn * chance) / spread)
    # Sum from the smaller side, using the ratio of consecutive terms.
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


def rank_test(base: Sequence[float], new: Sequence[float]) -> float:
    """Return the two-sided p-value of the Wilcoxon-Mann-Whitney test.

    Returns:
        The probability of ranks at least as different by chance, 0 to 1: twice the smaller tail
        of the exact distribution with ties; for long series the normal approximation with
        corrections for ties and continuity (Lehmann, Nonparametrics, 1.2).
    """
    ranks = doubled_ranks([*base, *new])
    observed = sum(ranks[: len(base)])
    total, base_count = len(ranks), len(base)
    if total <= EXACT_COUNT:
        ways = _distribution(tuple(sorted(ranks)), base_count)
        return min(1.0, 2 * min(sum(ways[: observed + 1]), sum(ways[observed:])) / sum(ways))
    mean = base_count * (total + 1)
    # Doubling the ranks quadruples their variance.
    share = base_count * (total - base_count) / (total * (total - 1))
    squares = share * sum((rank - (total + 1)) ** 2 for rank in ranks)
    if squares == 0:
        return 1.0
    distance = max(0.0, abs(observed - mean) - 1)
    return min(1.0, 2 * (1 - _NORMAL.cdf(distance / math.sqrt(squares))))


def few_test(base: Sequence[float], new: Sequence[float]) -> float | None:
    """Return the two-sided p-value of Welch's t test of the logarithms.

    Return None if a side has fewer than three measurements, if a measurement is not positive, or if
    the gap between the sides is no larger than the variation within a side.
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
    """Return the two-sided tail probability of Student's t distribution.

    Integrates the density over the angle whose tangent is t / √freedom (Abramowitz and Stegun,
    26.7) by Simpson's rule.
    """
    outer = math.atan2(math.sqrt(freedom), abs(t))
    norm = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    # The tail runs from the angle to π/2; `outer` is its width, and cos(x) = sin(π/2 − x).
    step = outer / _SIMPSON
    heights = [math.sin(place * step) ** (freedom - 1) for place in range(1, _SIMPSON)]
    inner = 4 * sum(heights[::2]) + 2 * sum(heights[1::2])
    first = 1.0 if freedom == 1 else 0.0
    area: float = step / 3 * (first + inner + math.sin(outer) ** (freedom - 1))
    return min(1.0, 2 * norm * area)


def shift_interval(
    base: Sequence[float], new: Sequence[float], *, alpha: float = ALPHA
) -> tuple[float, float] | None:
    """Return the interval of the shift that the rank test does not exclude (Moses 1965).

    Return None if there are too few measurements to exclude anything.
    """
    cut = _excluded_pairs(len(base), len(new), alpha)
    if cut == 0:
        return None
    last = len(base) * len(new) - 1
    return difference_at(base, new, cut - 1), difference_at(base, new, last - (cut - 1))


def least_count(alpha: float = ALPHA) -> int:
    """Return the minimum number of measurements per side with which the rank test can decide."""
    count = 2
    while 2 / math.comb(2 * count, count) > alpha:
        count += 1
    return count


@cache
def _distribution(ranks: tuple[int, ...], sample_size: int) -> tuple[int, ...]:
    """Count selections by rank sum; the counts are bit fields of one integer."""
    width = math.comb(len(ranks), sample_size).bit_length() + 1
    ways = [1] + [0] * sample_size
    for rank in ranks:
        for count in range(sample_size, 0, -1):
            ways[count] += ways[count - 1] << (rank * width)
    packed, mask = ways[sample_size], (1 << width) - 1
    return tuple(
        packed >> (total * width) & mask for total in range(packed.bit_length() // width + 1)
    )


@cache
def _excluded_pairs(first: int, second: int, alpha: float) -> int:
    """Return how many sorted pairwise differences are outside the interval on each side."""
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


def median_atoms(series: Sequence[float]) -> Atoms:
    """Return the possible medians of a resampled series, with their probabilities.

    For an even number of more than :data:`_PAIRS_OF_MIDDLES` measurements, the median is one of the
    two middle values with equal probability, which slightly widens the interval.
    """
    ordered, count = sorted(series), len(series)
    half = count // 2
    if count % 2 == 0 and count <= _PAIRS_OF_MIDDLES:
        atoms = []
        for low, of_low in drawn_places(count, half, is_whole=True):
            # Probability that the lower half of the draws ends at index `low`, and the upper half
            # begins at index `high`.
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


def spread(series: Sequence[float]) -> float:
    middle = median(series)
    return _MAD_TO_SIGMA * median([abs(value - middle) for value in series])


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value; equal values share their mean rank."""
    ordered = sorted(values)
    return [bisect_left(ordered, value) + bisect_right(ordered, value) + 1 for value in values]


def autocorrelation(base: Sequence[float], new: Sequence[float]) -> float:
    """Return the lag-1 autocorrelation, 0 to 0.9, or 0 if it is not significant.

    It is the correlation of adjacent ranks within the sides, corrected for the estimated mean. 5 %
    of independent series are treated as dependent, which costs a little power.
    """
    if min(len(base), len(new)) < _MIN_IN_ORDER:
        return 0.0
    products = squares = 0.0
    for series in (base, new):
        ranks = doubled_ranks(series)
        mean = sum(ranks) / len(ranks)
        products += sum((one - mean) * (other - mean) for one, other in pairwise(ranks))
        squares += sum((rank - mean) ** 2 for rank in ranks)
    count = len(base) + len(new)
    result = (products / squares if squares else 0.0) + 2 / count
    return min(round(result, 2), _MAX_CORRELATED) if result * count**0.5 >= _PLAIN_TO_SEE else 0.0


def inflation(correlation: float) -> float:
    """Return the factor by which an AR(1) correlation increases the variance of a mean."""
    return (1 + correlation) / (1 - correlation)


def dependent_tail(
    base: Sequence[float], new: Sequence[float], size: float, correlation: float
) -> float:
    """Return the probability of a difference at least as large, for correlated measurements.

    It is the normal tail, with the variance of each mean increased by the correlation. Ranks are
    not enough: they reflect the order of the measurements, but not the distance between the sides.
    """
    count = len(base) + len(new) - 2
    squares = sum(variance(series) * (len(series) - 1) for series in (base, new)) / count
    deviation = math.sqrt(squares * inflation(correlation) * (1 / len(base) + 1 / len(new)))
    return 2 * (1 - _NORMAL.cdf(abs(size) / deviation)) if deviation else 0.0


def widened(p_value: float, factor: float) -> float:
    """Return a two-sided p-value with its normal quantile multiplied by the root of `factor`."""
    if factor == 1 or p_value >= 1:
        return p_value
    distance = _NORMAL.inv_cdf(1 - max(p_value, _MIN_TAIL) / 2) * math.sqrt(factor)
    return max(2 * (1 - _NORMAL.cdf(distance)), _MIN_TAIL)


def difference_at(base: Sequence[float], new: Sequence[float], place: int) -> float:
    """Return one of the sorted pairwise differences new − base, by its index from 0.

    Pairs are counted, not built: one pass over both sorted series counts the differences below a
    bound, and bisection finds the bound.
    """
    first, second = sorted(base), sorted(new)
    if len(first) * len(second) <= _FEW_PAIRS:
        return sorted(y - x for x in first for y in second)[place]
    low, high = second[0] - first[-1], second[-1] - first[0]
    while low < high:
        middle = low + (high - low) / 2
        if middle >= high:  # no number is between the two
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
    """Return the number of differences up to a bound, the largest of these, and the next one."""
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


def students_t(values: Sequence[float], place: int) -> float:
    """Return Student's t of two groups with equal variance; infinite if the variance is 0."""
    parts = values[:place], values[place:]
    means = [fmean(part) for part in parts]
    squares = sum(
        (value - mean) ** 2 for part, mean in zip(parts, means, strict=True) for value in part
    )
    size = abs(means[1] - means[0])
    error = math.sqrt(squares / (len(values) - 2) * (1 / place + 1 / (len(values) - place)))
    # Such small variances are rounding errors.
    if size <= 1e-12 * max(map(abs, means)):
        return 0.0
    return size / error if error else math.inf
