"""Thousands of steps or requests on each side: no figure breaks, and memory knows no pairs."""

from __future__ import annotations

import math
import random
import tracemalloc

import pytest

from tracekit.comparison.bootstrap import at_least
from tracekit.comparison.measures import drift_pct
from tracekit.comparison.noise import (
    bootstrap_interval,
    compare_series,
    difference_at,
    shift_interval,
)


def _series(count: int, factor: float = 1.0, seed: int = 0) -> list[float]:
    source = random.Random(seed)
    return [round(factor * 1e6 * source.gauss(1, 0.02)) for _ in range(count)]


@pytest.mark.parametrize("count", [1_000, 1_001, 6_000])
def test_more_measurements_than_a_float_counts_ways(count: int) -> None:
    base, new = _series(count, seed=1), _series(count, 1.03, seed=2)
    found = compare_series(base, new)
    assert found.verdict == "slower"
    assert found.low is not None
    assert found.high is not None
    assert found.low < 30_000 < found.high
    # The standard error of a median is 1.2533 times that of a mean, and 2.807 of those lie outside.
    error = 1.2533 * 20_000 * math.sqrt(2 / count)
    assert found.high - found.low == pytest.approx(2 * 2.807 * error, rel=0.3)


def test_the_interval_goes_on_where_ways_are_no_longer_summed() -> None:
    ends = [
        bootstrap_interval(_series(n, seed=1), _series(n, 1.03, seed=2)) for n in (1_000, 1_002)
    ]
    widths = [high - low for low, high in ends]
    assert widths[1] == pytest.approx(widths[0], rel=0.05)


@pytest.mark.parametrize("drawn", [400, 900])
def test_the_tail_is_the_sum_of_its_ways(drawn: int) -> None:
    for needed in range(drawn * 2 // 5, drawn * 3 // 5, 20):
        ways = sum(math.comb(drawn, hits) for hits in range(needed, drawn + 1))
        assert at_least(drawn, needed, 0.5) == pytest.approx(ways / 2**drawn, abs=1e-4)


@pytest.mark.parametrize("is_whole", [True, False])
def test_every_place_among_the_differences_of_pairs(is_whole: bool) -> None:
    source = random.Random(3)
    spread = 40 if is_whole else 1.0
    base, new = (
        [source.randrange(40) if is_whole else source.gauss(0, spread) for _ in range(350)]
        for _ in range(2)
    )
    every = sorted(y - x for x in base for y in new)
    assert len(every) > 100_000
    for place in (0, 1, 17, 999, 61_250, 61_251, len(every) - 2, len(every) - 1):
        assert difference_at(base, new, place) == every[place]
    assert difference_at(base[:9], new, 40) == sorted(y - x for x in base[:9] for y in new)[40]


def test_equal_measurements_differ_by_nothing() -> None:
    assert shift_interval([7.0] * 2_000, [7.0] * 2_000) == (0.0, 0.0)


def test_memory_grows_with_measurements_and_not_with_pairs() -> None:
    base, new = _series(2_000, seed=1), _series(2_000, seed=2)
    tracemalloc.start()
    assert compare_series(base, new).verdict == "same"
    drift_pct(base)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Four million pairs of floats would take 128 MB.
    assert peak_bytes < 40_000_000


def test_a_drift_is_that_of_the_whole_series_however_long() -> None:
    source = random.Random(5)
    rising = [1e6 * (1 + 0.1 * n / 5_000) + source.gauss(0, 100) for n in range(5_000)]
    found = drift_pct(rising)
    assert found is not None
    assert found == pytest.approx(100 * 0.1 / 1.05, rel=0.01)
    assert drift_pct(_series(5_000)) is None
