"""When sampling stops, and the interval of a median: with a clock that the test turns."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import pytest

from tracekit.collectors.bench.sampling import (
    LEAST_SAMPLES,
    MOST_SAMPLES,
    Budget,
    Timing,
    interval_place,
    take_samples,
)

BUDGET = Budget(width_pct=2, seconds=1.0, warmup_s=0.1, sample_ns=1e6, most_inner=500)


class Machine:
    """A call that takes the times it is told, on a clock that moves with it."""

    def __init__(self, times_ns: Iterator[float]) -> None:
        self._times_ns = times_ns
        self.now_ns = 0.0
        self.counts: list[int] = []

    def timed(self, count: int) -> float:
        self.counts.append(count)
        took = next(self._times_ns) * count
        self.now_ns += took
        return took

    def now_s(self) -> float:
        return self.now_ns / 1e9

    def sample(
        self, budget: Budget = BUDGET, agree: Callable[[Sequence[float]], Sequence[float]] = tuple
    ) -> Timing:
        return take_samples(self.timed, budget, agree, self.now_s)


def coverage(count: int, place: int) -> Fraction:
    """How often the median lies between the samples at a place from below and from above.

    Every sample is below or above the median with the same probability: all 2^n cases are counted.
    """
    inside = sum(
        place <= sum(below) <= count - place for below in itertools.product((0, 1), repeat=count)
    )
    return Fraction(inside, 2**count)


@pytest.mark.parametrize("count", range(1, 15))
def test_the_interval_holds_the_median_often_enough_and_is_the_narrowest(count: int) -> None:
    place = interval_place(count)
    if place is None:
        assert coverage(count, 1) < Fraction(95, 100)
        return
    assert coverage(count, place) >= Fraction(95, 100)
    assert coverage(count, place + 1) < Fraction(95, 100)


def test_places_of_a_table() -> None:
    """Those of Conover, Practical Nonparametric Statistics, for the sign test at 5 %."""
    found = [interval_place(count) for count in (5, 6, 9, 10, 20, 50, 100)]
    assert found == [None, 1, 2, 2, 6, 18, 40]


def test_an_interval_by_hand() -> None:
    timing = Timing(1, 1, [7.0, 1.0, 3.0, 5.0, 9.0, 11.0, 2.0, 4.0, 6.0, 8.0])
    assert (timing.median(), timing.interval()) == (5.5, (2.0, 9.0))
    assert timing.width_pct() == pytest.approx(100 * 7 / 5.5)


def test_a_steady_call_ends_early() -> None:
    """2 µs each: 500 calls are a sample of 1 ms; a fifth of the time is spent at least."""
    machine = Machine(itertools.repeat(2_000.0))
    timing = machine.sample()
    assert timing.inner_count == 500
    assert timing.median() == 2_000.0
    assert timing.interval() == (2_000.0, 2_000.0)
    spent_s = timing.inner_count * len(timing.sample_ns) * 2_000 / 1e9
    assert 0.2 <= spent_s < 0.4
    assert timing.warmup_count == sum(machine.counts[: -len(timing.sample_ns)])
    assert timing.warmup_count * 2_000 / 1e9 >= BUDGET.warmup_s


def test_an_unsteady_call_takes_all_the_time() -> None:
    machine = Machine(itertools.cycle((1e6, 3e6)))
    timing = machine.sample()
    assert timing.inner_count == 1
    assert timing.width_pct() > BUDGET.width_pct
    assert len(timing.sample_ns) == pytest.approx(500, abs=1)


def test_a_slow_call_has_as_many_samples_as_an_interval_needs() -> None:
    timing = Machine(itertools.repeat(0.5e9)).sample()
    assert len(timing.sample_ns) == LEAST_SAMPLES
    assert timing.interval() is not None


def test_a_very_slow_call_has_fewer_and_no_interval() -> None:
    timing = Machine(itertools.repeat(3e9)).sample()
    assert (len(timing.sample_ns), timing.interval()) == (2, None)


def test_there_is_an_end_to_samples() -> None:
    machine = Machine(itertools.cycle((1e3, 2e3)))
    timing = machine.sample(Budget(seconds=100.0, sample_ns=1.0, warmup_s=0.0))
    assert len(timing.sample_ns) == MOST_SAMPLES


def test_one_slow_batch_of_the_warm_up_does_not_decide_how_many_calls_a_sample_has() -> None:
    """The first batch met another program's turn on the processor."""
    machine = Machine(itertools.chain((1e6, 50e6, 2e3), itertools.repeat(2e3)))
    assert machine.sample().inner_count == 500


def test_a_call_too_short_for_the_clock_is_made_as_often_as_allowed() -> None:
    ticks = itertools.count()
    timing = take_samples(lambda _: 0.0, BUDGET, tuple, lambda: next(ticks) * 0.01)
    assert timing.inner_count == BUDGET.most_inner
    assert timing.median() == 0.0


def test_all_ranks_stop_at_the_slowest_ones_figures() -> None:
    """The other rank is twice as slow, and its clock runs ahead."""
    machine = Machine(itertools.repeat(1e6))

    def agree(own: Sequence[float]) -> Sequence[float]:
        return tuple(2 * value for value in own)

    timing = machine.sample(agree=agree)
    assert statistics.fmean(timing.sample_ns) == 2e6
    # A fifth of a second by the other clock is a tenth by this one; looks are half as many apart.
    assert 100 <= len(timing.sample_ns) <= 150
