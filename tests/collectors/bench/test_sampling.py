"""Sampling: when it stops, the interval of a median, and the clocks."""

import itertools
import statistics
from unittest.mock import Mock, call

import pytest

from tracekit.collectors.bench.clock import EventClock, WallClock
from tracekit.collectors.bench.sampling import (
    MAX_SAMPLES,
    MIN_SAMPLES,
    Budget,
    Timing,
    interval_place,
    take_samples,
)

BUDGET = Budget(width_pct=2, seconds=1.0, warmup_s=0.1, sample_ns=1e6, max_inner=500)


class Machine:
    def __init__(self, times_ns):
        self._times_ns = times_ns
        self.now_ns = 0.0
        self.counts = []

    def timed(self, count):
        self.counts.append(count)
        took = next(self._times_ns) * count
        self.now_ns += took
        return took

    def now_s(self):
        return self.now_ns / 1e9

    def sample(self, budget=BUDGET, agree=tuple):
        return take_samples(self.timed, budget, agree, self.now_s)


def test_places_of_a_table():
    """The table of Conover, Practical Nonparametric Statistics, for the sign test at 5 %."""
    counts = (5, 6, 8, 9, 11, 12, 10, 20, 50, 100)
    assert [interval_place(n) for n in counts] == [None, 1, 1, 2, 2, 3, 2, 6, 18, 40]


def test_an_interval_by_hand():
    timing = Timing(1, 1, [7.0, 1.0, 3.0, 5.0, 9.0, 11.0, 2.0, 4.0, 6.0, 8.0])
    assert (timing.median(), timing.interval()) == (5.5, (2.0, 9.0))
    assert timing.width_pct() == pytest.approx(100 * 7 / 5.5)


def test_a_steady_call_ends_early():
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


def test_an_unsteady_call_takes_all_the_time():
    machine = Machine(itertools.cycle((1e6, 3e6)))
    timing = machine.sample()
    assert timing.inner_count == 1
    assert timing.width_pct() > BUDGET.width_pct
    assert len(timing.sample_ns) == pytest.approx(500, abs=1)


def test_a_slow_call_has_as_many_samples_as_an_interval_needs():
    timing = Machine(itertools.repeat(0.5e9)).sample()
    assert len(timing.sample_ns) == MIN_SAMPLES
    assert timing.interval() is not None


def test_a_very_slow_call_has_fewer_and_no_interval():
    timing = Machine(itertools.repeat(3e9)).sample()
    assert (len(timing.sample_ns), timing.interval()) == (2, None)


def test_there_is_an_end_to_samples():
    machine = Machine(itertools.cycle((1e3, 2e3)))
    timing = machine.sample(Budget(seconds=100.0, sample_ns=1.0, warmup_s=0.0))
    assert len(timing.sample_ns) == MAX_SAMPLES


def test_one_slow_batch_of_the_warm_up_does_not_decide_how_many_calls_a_sample_has():
    """The first batch met another program's turn on the processor."""
    machine = Machine(itertools.chain((1e6, 50e6, 2e3), itertools.repeat(2e3)))
    assert machine.sample().inner_count == 500


def test_a_call_too_short_for_the_clock_is_made_as_often_as_allowed():
    ticks = itertools.count()
    timing = take_samples(lambda _: 0.0, BUDGET, tuple, lambda: next(ticks) * 0.01)
    assert timing.inner_count == BUDGET.max_inner
    assert timing.median() == 0.0


def test_all_ranks_stop_at_the_slowest_ones_figures():
    """The other rank is twice as slow, and its clock runs ahead."""
    machine = Machine(itertools.repeat(1e6))

    def agree(own):
        return tuple(2 * value for value in own)

    timing = machine.sample(agree=agree)
    assert statistics.fmean(timing.sample_ns) == 2e6
    # A fifth of a second on the other clock is a tenth on this one, so checks are half as far
    # apart.
    assert 100 <= len(timing.sample_ns) <= 150


def event_clock(elapsed_ms=1.5):
    cuda = Mock()
    cuda.Event.side_effect = (cuda.begin, cuda.end)
    cuda.begin.elapsed_time.return_value = elapsed_ms
    return EventClock("cuda:0", cuda), cuda


def test_events_contain_only_the_calls():
    clock, cuda = event_clock()
    assert clock.time_ns(cuda.work, 2) == 1_500_000
    assert cuda.mock_calls[2:] == [
        *(call.synchronize("cuda:0"), call._sleep(75_000), call.begin.record()),
        *(call.work(), call.work(), call.end.record(), call.end.synchronize()),
        call.begin.elapsed_time(cuda.end),
    ]


@pytest.mark.parametrize(("count", "cycles"), [(1, 75_000), (100, 1_500_000), (9999, 15_000_000)])
def test_the_device_is_busy_while_calls_are_queued(count, cycles):
    clock, cuda = event_clock()
    clock.time_ns(lambda: None, count)
    cuda._sleep.assert_called_once_with(cycles)


def test_a_device_without_that_kernel_is_timed_all_the_same():
    clock, cuda = event_clock(2.0)
    cuda._sleep = None
    assert clock.time_ns(lambda: None, 1) == 2e6


def test_the_wall_clock_waits_outside_of_the_time():
    now, log = [0], []

    def synchronize():
        now[0] += 1000
        log.append("synchronize")

    def call():
        now[0] += 7
        log.append("call")

    clock = WallClock(synchronize, lambda: now[0])
    assert clock.time_ns(call, 3) == 21
    assert log == ["synchronize", "call", "call", "call", "synchronize"]
