"""Differences of percentiles and rates, with intervals.

- A percentile has a bootstrap interval, like medians of steps; see `statistics`.
- It has none if the interval would include the largest or smallest value, because values beyond
these are unknown. A 99th percentile therefore needs about 500 requests.
- A rate is a sum divided by a sum of times. Adjacent values are correlated, so blocks of adjacent
  values are resampled (Künsch 1989), with a fixed seed.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from msgspec import Struct

from tracekit.comparison.noise import Difference, Verdict, compare_series
from tracekit.comparison.statistics import ALPHA, at_least, drawn_places, interval_of_difference
from tracekit.units import NS_PER_S

_DRAWS = 4_000
_MAX_BLOCKS = 200
_MANY = 10_000
MIN_BLOCKS = 8
"""Minimum number of blocks per side for an interval of a rate."""


class Ordered(Struct, frozen=True):
    """The sorted values of a series, or only the values at some indices of a long series.

    `count` is the length of the series. `places` are the indices of the known values, None for all.
    """

    count: int
    values: Sequence[int]
    places: Sequence[int] | None = None

    @classmethod
    def of(cls, series: Iterable[int]) -> Ordered:
        values = sorted(series)
        return cls(len(values), values)

    def at(self, place: int) -> int:
        places = range(self.count) if self.places is None else self.places
        low = bisect_left(places, place)
        if places[low : low + 1] and places[low] == place:
            return self.values[low]
        raise KeyError(place)

    def scaled(self, factor: float) -> Ordered:
        return Ordered(self.count, [round(value * factor) for value in self.values], self.places)


def quantile_difference(
    base: Sequence[int] | Ordered,
    new: Sequence[int] | Ordered,
    quantile: int,
    *,
    alpha: float = ALPHA,
    margin_pct: float = 1.0,
) -> Difference:
    """Compare a percentile (nearest rank, 1 to 99) of two nonempty series of times.

    `margin_pct` is the largest difference that counts as no difference, percent of the base.
    """
    sides = [one if isinstance(one, Ordered) else Ordered.of(one) for one in (base, new)]
    counts = sides[0].count, sides[1].count
    ranks = _rank(counts[0], quantile), _rank(counts[1], quantile)
    values = float(sides[0].at(ranks[0] - 1)), float(sides[1].at(ranks[1] - 1))
    if not all(_is_inside(count, quantile, alpha) for count in counts):
        more = max(1, _least_count(quantile, alpha) - min(counts))
        return Difference(*counts, *values, None, None, "inconclusive", more)
    first, second = (
        [(side.at(place), chance) for place, chance in drawn_places(side.count, rank)]
        for side, rank in zip(sides, ranks, strict=True)
    )
    low, high = interval_of_difference(first, second, alpha)
    verdict = _verdict(low, high, abs(values[0]) * margin_pct / 100)
    is_whole = all(side.places is None for side in sides)
    if quantile == 50 and verdict != "same" and is_whole:
        # For the median, the rank test is more powerful.
        result = compare_series(
            *(side.values for side in sides), alpha=alpha, margin_pct=margin_pct, is_in_order=False
        )
        verdict = result.verdict or verdict
    return Difference(*counts, *values, low, high, verdict, None)


def thinned(series: Iterable[int], quantiles: Iterable[int], most_count: int) -> Ordered:
    """Reduce a series to the values that a comparison of percentiles needs.

    Intervals and verdicts of percentiles are unchanged. Only the median loses its rank test.
    """
    whole = Ordered.of(series)
    if whole.count <= most_count:
        return whole
    places = sorted(_looked_at(whole, quantiles))
    return Ordered(whole.count, [whole.values[place] for place in places], places)


def is_enough(series: Ordered, quantiles: Iterable[int]) -> bool:
    """Return whether a thinned series has all values that a comparison of percentiles needs."""
    return series.places is None or _looked_at(series, quantiles) <= {*series.places}


def _looked_at(series: Ordered, quantiles: Iterable[int]) -> set[int]:
    places: set[int] = set()
    for quantile in quantiles:
        rank = _rank(series.count, quantile)
        places.update([rank - 1, *(place for place, _ in drawn_places(series.count, rank))])
    return places


def rate_difference(
    base: Sequence[tuple[int, int]],
    new: Sequence[tuple[int, int]],
    *,
    margin_pct: float = 1.0,
) -> Difference:
    """Compare a rate per second, from pairs of an amount and its time in ns, in order."""
    values = _rate(base), _rate(new)
    counts = len(base), len(new)
    blocks = [_blocks(side) for side in (base, new)]
    if min(map(len, blocks)) < MIN_BLOCKS:
        return Difference(*counts, *values, None, None, "inconclusive", None)
    source = random.Random(0)
    # Resample the ratio rather than the difference, because rates are positive and few values vary
    # by factors.
    drawn = sorted(
        _rate(source.choices(blocks[1], k=len(blocks[1])))
        / (_rate(source.choices(blocks[0], k=len(blocks[0]))) or math.inf)
        for _ in range(_DRAWS)
    )
    at = int(ALPHA / 2 * _DRAWS)
    low, high = (values[0] * (ratio - 1) for ratio in (drawn[at], drawn[-at - 1]))
    verdict = _verdict(-high, -low, abs(values[0]) * margin_pct / 100)
    return Difference(*counts, *values, low, high, verdict, None)


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
    """Sum blocks of consecutive values; their length is at least the cube root of the count."""
    length = max(round(len(pairs) ** (1 / 3)), math.ceil(len(pairs) / _MAX_BLOCKS))
    return [
        (sum(a for a, _ in pairs[at : at + length]), sum(t for _, t in pairs[at : at + length]))
        for at in range(0, len(pairs), length)
    ]


def _rank(count: int, quantile: int) -> int:
    return max(1, -(-quantile * count // 100))


def _is_inside(count: int, quantile: int, alpha: float) -> bool:
    """Return whether a resampled percentile is rarely the smallest or largest value."""
    rank = _rank(count, quantile)
    if count < 2:
        return False
    largest = 1 - at_least(count, rank, (count - 1) / count)
    return largest <= alpha / 2 and at_least(count, rank, 1 / count) <= alpha / 2


def _least_count(quantile: int, alpha: float) -> int:
    count = 2
    while count < _MANY and not _is_inside(count, quantile, alpha):
        count += 1
    return count
