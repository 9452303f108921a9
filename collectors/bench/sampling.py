"""Samples a call until its median is known precisely enough or a time limit is reached.

A sample is the mean time per call in a batch that is long enough for the clock. The confidence
interval of the median holds for any distribution: of n samples, the j-th smallest and the j-th
largest enclose the median with probability 1 − 2 P(B ≤ j − 1), where B is binomial with parameters
n and 1/2 (David and Nagaraja, Order Statistics, 7.1). The interval is checked only after 6, 9, 13,
19, … samples. Checks after every sample would stop too early too often.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from tracekit.units import NS_PER_S

CONFIDENCE_PCT = 95

MIN_SAMPLES = 6
"""Minimum number of samples for an interval."""

MAX_SAMPLES = 1000

_MAX_OVERTIME = 4
# Minimum number of warm-up batches for an estimate of the call's duration.
_MIN_BATCHES = 3
# Minimum fraction of the time limit to spend, because a few samples may agree by chance.
_MIN_SHARE = 0.2
_GROWTH = 1.5

Timed = Callable[[int], float]
"""Function that makes the given number of calls and returns their total duration, ns."""

Agree = Callable[[Sequence[float]], Sequence[float]]
"""Function that returns the element-wise maximum over all ranks, so that all ranks decide alike."""


class Budget(Struct, frozen=True):
    """Limits for measuring a point until its interval is narrow: at most `width_pct` of the median.

    Up to four times `seconds` may be spent on the minimum number of samples, each at least
    `sample_ns` long. A sample has at most `max_inner` calls, which fit into the device's queue.
    """

    width_pct: float = 2.0
    seconds: float = 0.25
    warmup_s: float = 0.025
    sample_ns: float = 1e6
    max_inner: int = 10_000


class Timing(Struct):
    """Samples of a point (ns per call), and the numbers of warm-up calls and calls per sample."""

    warmup_count: int
    inner_count: int
    sample_ns: list[float] = field(default_factory=list)

    def median(self) -> float:
        return statistics.median(self.sample_ns)

    def interval(self) -> tuple[float, float] | None:
        ordered = sorted(self.sample_ns)
        place = interval_place(len(ordered))
        return None if place is None else (ordered[place - 1], ordered[-place])

    def width_pct(self) -> float:
        interval = self.interval()
        median = self.median()
        if interval is None or median <= 0:
            return math.inf
        return 100 * (interval[1] - interval[0]) / median


def interval_place(count: int, confidence_pct: int = CONFIDENCE_PCT) -> int | None:
    """Return the largest j for which the j-th smallest and j-th largest sample bound the median."""
    # P(B <= place - 1) <= (1 - confidence) / 2, in integer arithmetic.
    below, place = 0, 0
    while place <= count:
        below += math.comb(count, place)
        if 200 * below > (100 - confidence_pct) * 2**count:
            break
        place += 1
    return place or None


def take_samples(
    timed: Timed,
    budget: Budget,
    agree: Agree = lambda own: own,
    now_s: Callable[[], float] = time.monotonic,
) -> Timing:
    """Measure a call; all ranks must run this function, and `agree` combines their figures."""
    warmup_count, call_ns = _warm_up(timed, budget, agree, now_s)
    wanted = math.ceil(budget.sample_ns / call_ns) if call_ns > 0 else budget.max_inner
    inner_count = min(max(wanted, 1), budget.max_inner)
    timing = Timing(warmup_count, inner_count)
    begin_s = now_s()
    next_look = MIN_SAMPLES
    while True:
        took_ns = timed(inner_count)
        took_ns, elapsed_s = agree((took_ns, now_s() - begin_s))
        timing.sample_ns.append(took_ns / inner_count)
        count = len(timing.sample_ns)
        if count >= MAX_SAMPLES:
            return timing
        if elapsed_s >= budget.seconds and (
            count >= MIN_SAMPLES or elapsed_s >= _MAX_OVERTIME * budget.seconds
        ):
            return timing
        if count >= next_look:
            if timing.width_pct() <= budget.width_pct and elapsed_s >= _MIN_SHARE * budget.seconds:
                return timing
            next_look = int(count * _GROWTH)


def _warm_up(
    timed: Timed, budget: Budget, agree: Agree, now_s: Callable[[], float]
) -> tuple[int, float]:
    """Call for the warm-up time; return the number of calls and the duration of one, ns."""
    begin_s = now_s()
    timed(1)
    done = count = 1
    batches = 0
    call_ns = math.inf
    while True:
        took_ns, elapsed_s = agree((timed(count), now_s() - begin_s))
        done += count
        batches += 1
        # Use the shortest time, because other load on the machine only lengthens batches.
        call_ns = min(call_ns, took_ns / count)
        if elapsed_s >= budget.warmup_s and (
            batches >= _MIN_BATCHES or elapsed_s >= _MAX_OVERTIME * budget.warmup_s
        ):
            return done, call_ns
        if took_ns < budget.warmup_s * NS_PER_S / _MAX_OVERTIME:
            count = min(2 * count, budget.max_inner)
