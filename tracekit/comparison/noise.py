"""Whether two series of measurements differ by more than their noise: pure statistics.

Steps vary, so one number on each side says nothing. A series here is one measurement for each step
(or run, or request) of a side. Nothing is assumed about how measurements are distributed: steps
have long tails.

- The size of the difference is that of the medians. Its interval is the bootstrap's: what the
  difference would be if each side were drawn again from its own measurements. The distribution
  over all such draws is computed, not sampled: see `statistics`.
- Whether there is a difference at all is decided by the rank test of Wilcoxon, Mann and Whitney,
  exactly (over all ways to share the measurements between two sides) as long as both sides together
  have up to `EXACT_COUNT` measurements. Ties are counted as what they are.
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
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import Literal, TypeAlias

from tracekit.comparison.statistics import (
    ALPHA,
    autocorrelation,
    bootstrap_interval,
    dependent_tail,
    few_test,
    inflation,
    least_count,
    rank_test,
    shift_interval,
    spread,
    widened,
)

FEW_ALPHA = ALPHA / 5
"""The same where so few measurements decide that ranks could not.

Of steps of an H200, drawn three and three from ten of one loop, 0.17 % are told apart, of steps in
a row 0.3 %.
"""

MARGIN_PCT = 1.0
"""Differences up to this share of the base count as none, unless told otherwise, percent."""

POWER = 0.9
"""How surely the advised number of measurements would decide."""

Verdict = Literal["faster", "slower", "same", "inconclusive"]

Gain: TypeAlias = "tuple[float, float | None, float | None, Verdict | None]"
"""By how much a time gets shorter, the least and the most of that, all in percent; the verdict."""

_NORMAL = NormalDist()
# The asymptotic efficiency of the rank test against the t-test, for normal noise, is 3/π.
_RANK_TEST_COST = math.pi / 3
_MANY = 100_000


@dataclass(frozen=True, slots=True)
class Difference:
    """How two series of times compare; times have the unit of the series, shares are percent.

    `low` and `high` are the ends of the interval of the difference; None where there are too few
    measurements for any. It holds 0 where the verdict is inconclusive. `p_value` is that of the
    rank test. `more_count` says how many measurements more on each side would likely decide; None
    where nothing is left to decide, or where no number of them would do. `correlation` is that of
    each measurement with the one before, where it is plain to see, else 0; `p_value` and the
    interval are as wide as it takes.
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
    low: float | None
    high: float | None
    low, high = bootstrap_interval(base, new, alpha=alpha)
    if min(*base, *new) >= 0:  # times cannot become negative
        low = max(low, -middle[0])
    turned = shift_interval(base, new, alpha=alpha)
    if margin is None:
        margin = abs(middle[0]) * margin_pct / 100
    verdict: Verdict = "inconclusive"
    if turned is not None and -margin <= min(low, turned[0]) <= max(high, turned[1]) <= margin:
        verdict = "same"
    # A certain difference within the margin is irrelevant.
    elif decided and size != 0 and (turned is None or turned[0] * turned[1] >= 0):
        verdict = "slower" if size > 0 else "faster"
    more = None
    if verdict == "inconclusive":
        if not low <= 0 <= high:
            # If the rank test cannot decide, the interval must contain 0.
            ends = (low, high, 0.0, *(turned or ()))
            low, high = (None, None) if turned is None else (min(ends), max(ends))
        more = _more_count(base, new, abs(size), margin, alpha)
    return Difference(
        *(*counts, *middle, size, low, high, p_value, margin_pct, verdict, more, correlation),
        is_apart=max(base) < min(new) or max(new) < min(base),
    )


def share_pct(part: float | None, whole: float) -> float | None:
    """Return a part in percent of a whole; None without either."""
    return 100 * part / whole if whole and part is not None else None


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
