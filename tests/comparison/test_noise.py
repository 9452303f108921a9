"""Statistics of comparisons, compared with exact counts and random draws."""

import itertools
import math
import random
import tracemalloc
from statistics import NormalDist, median

import noise_curve as curve
import pytest

from tracekit.comparison.measures import drift_pct, outliers, warm_up_count
from tracekit.comparison.noise import compare_series
from tracekit.comparison.statistics import (
    ALPHA,
    at_least,
    autocorrelation,
    difference_at,
    interval_of_difference,
    least_count,
    median_atoms,
    rank_test,
    shift_interval,
    student_tail,
    widened,
)
from tracekit.comparison.tables import chance_limit


def _p_by_counting(base, new):
    """The exact test by all ways to share the values between the two sides."""
    values = [*base, *new]
    rank = [
        sum(other < value for other in values) + sum(other <= value for other in values) + 1
        for value in values
    ]
    observed = sum(rank[: len(base)])
    sums = [
        sum(rank[i] for i in chosen)
        for chosen in itertools.combinations(range(len(values)), len(base))
    ]
    below = sum(total <= observed for total in sums)
    above = sum(total >= observed for total in sums)
    return min(1.0, 2 * min(below, above) / len(sums))


@pytest.mark.parametrize(
    ("base", "new"),
    [
        ([1.0, 2, 3], [4.0, 5, 6]),
        ([1.0, 2, 2], [2.0, 2, 3, 9]),
        ([5.0, 1, 4, 4], [4.0, 6, 7, 8, 4]),
        ([3.0, 3], [3.0, 3]),
    ],
)
def test_the_rank_test_is_the_count_of_all_cases(base, new):
    assert rank_test(base, new) == pytest.approx(_p_by_counting(base, new), abs=1e-12)


def test_the_rank_test_of_long_series_continues_that_of_short_ones():
    draw = random.Random(7)
    base = [draw.gauss(100, 1) for _ in range(20)]
    new = [draw.gauss(100.8, 1) for _ in range(20)]
    assert rank_test(base, new) == pytest.approx(rank_test([*base, 100.4], new), rel=0.5)


@pytest.mark.parametrize("count", [3, 4, 5, 6])
def test_the_median_of_draws_is_that_of_all_draws(count):
    values = sorted(random.Random(count).uniform(0, 10) for _ in range(count))
    counted = {}
    for drawn in itertools.product(values, repeat=count):
        counted[median(drawn)] = counted.get(median(drawn), 0) + 1
    atoms = {}
    for value, chance in median_atoms(values):
        atoms[value] = atoms.get(value, 0.0) + chance
    for value, ways in counted.items():
        assert atoms[value] == pytest.approx(ways / count**count, abs=1e-12)
    assert sum(atoms.values()) == pytest.approx(1)


def test_the_bootstrap_interval_contains_the_difference():
    base, new = [10.0, 11, 12, 13, 14], [20.0, 21, 22, 23, 24]
    low, high = interval_of_difference(median_atoms(base), median_atoms(new), ALPHA)
    assert 6 <= low < 10 < high <= 14


def test_the_interval_of_the_rank_test_turned_around():
    # 2 / C(10, 5) is 0.8 %: of five each, the extreme case alone is excluded at 1 %.
    five = [1, 2, 3, 4, 5], [11, 12, 13, 14, 15]
    assert shift_interval(*five, alpha=0.01) == (6, 14)
    assert shift_interval(*five) is None
    assert (least_count(0.01), least_count()) == (5, 6)


def test_one_measurement_each_gives_no_verdict():
    found = compare_series([100], [110])
    assert (found.difference, found.difference_pct, found.verdict) == (10, 10, None)
    assert (found.p_value, found.low, found.more_count) == (None, None, None)


def test_too_few_steps_are_inconclusive_with_the_required_number():
    found = compare_series([100, 101, 102], [104, 105, 108])
    assert (found.verdict, found.more_count) == ("inconclusive", 3)
    assert (found.is_apart, found.needed_count) == (True, 6)
    assert compare_series([100, 101, 102], [102, 105, 108]).is_apart is False
    # The gap does not exceed the variation within a side, even if it seems significant.
    near = [100, 100.5, 100.5, 100.5, 101], [101.9, 102.4, 102.4, 102.4, 102.9]
    assert compare_series(*near).verdict == "inconclusive"


def test_few_decide_where_they_are_far_apart():
    for base, new, verdict in (
        ([100, 101, 102], [110, 111, 112], "slower"),
        ([1000, 1100, 1050], [140, 150, 145], "faster"),
        # Two measurements do not show noise, and variation within a side is not a difference.
        ([100, 101], [110, 111], "inconclusive"),
        ([100, 101, 102], [104, 108, 109], "inconclusive"),
        ([100, 101, 102], [0, 0, 0], "inconclusive"),
    ):
        assert compare_series(base, new).verdict == verdict, (base, new)
    # Six can be decided by ranks, which count all cases.
    six = [100, 101, 102, 103, 104, 105]
    assert compare_series(six, [x + 10 for x in six]).p_value == rank_test([0] * 6, [1] * 6)


def test_students_tail():
    """By its table: t at 0.1 % (two-sided) of 1, 4, 10 and 30 degrees of freedom."""
    for t, freedom in ((636.619, 1), (8.610, 4), (4.587, 10), (3.646, 30)):
        assert student_tail(t, freedom) == pytest.approx(0.001, rel=2e-3)
    assert student_tail(0, 5) == pytest.approx(1)


def test_three_equal_measurements_per_side_rarely_differ_significantly():
    for draw in (random.Random(1).gauss, random.Random(2).lognormvariate):
        alarms = sum(
            compare_series(*([draw(5, 0.3) for _ in range(3)] for _ in "ab")).verdict
            in ("slower", "faster")
            for _ in range(2000)
        )
        assert alarms <= 0.005 * 2000


def test_no_time_gets_shorter_than_nothing():
    found = compare_series([10, 100, 1000], [9, 99, 999])
    assert found.low_pct == -100


def test_faster_slower_same():
    base = [100.3, 100.0, 100.5, 100.1, 100.4, 100.2]
    assert compare_series(base, [x + 5 for x in base]).verdict == "slower"
    assert compare_series(base, [x - 5 for x in base]).verdict == "faster"
    assert compare_series(base, list(base)).verdict == "same"
    assert compare_series(base, list(base), margin_pct=0.1).verdict == "inconclusive"


def test_equal_measurements_are_the_same():
    found = compare_series([7.0] * 6, [7.0] * 6)
    assert (found.verdict, found.p_value, found.within_pct) == ("same", 1.0, 0.0)
    assert shift_interval([7.0] * 2_000, [7.0] * 2_000) == (0.0, 0.0)


def test_a_series_without_measurements_is_refused():
    with pytest.raises(ValueError, match="without measurements"):
        compare_series([], [1])


def test_the_suggested_number_is_about_the_required_one():
    """Normal noise of 1 % and a difference of 1 %: slightly more than normal theory requires."""
    quantiles = [NormalDist(100, 1).inv_cdf((k + 0.5) / 8) for k in range(8)]
    # Low and high values alternate, so there is no trend.
    steps = [quantiles[place] for place in (0, 7, 2, 5, 1, 6, 3, 4)]
    found = compare_series(steps, [value + 1 for value in steps], margin_pct=0)
    assert found.verdict == "inconclusive"
    z = NormalDist().inv_cdf(1 - ALPHA / 2) + NormalDist().inv_cdf(0.9)
    assert 0.7 <= (found.more_count + 8) / (2 * z**2) <= 1.5


def test_warm_up_outliers_and_drift():
    steps = [190.0, 150, 100, 101, 100, 99, 101, 100, 130, 100]
    assert outliers(steps) == [0, 1, 8]
    assert warm_up_count(steps) == 2
    assert drift_pct([100.0, 101, 102, 103, 104, 105, 106]) == pytest.approx(600 / 103)
    assert drift_pct([100.0, 102, 99, 101, 100, 98, 103]) is None


@pytest.mark.nightly("resamples the steps of a real run")
def test_a_a_and_a_b_on_the_steps_of_a_real_run():
    """Verdicts of 1,000 pairs without a difference, and with 2 %."""
    steps = curve.real_steps()
    calm = curve.with_spread(steps, 0.5)
    for series in (steps, calm):
        alarms = curve.verdicts(series, 10, 0.0, 1_000)
        assert alarms["slower"] + alarms["faster"] <= 10
        assert "same" not in curve.verdicts(series, 10, 2.0, 300)


def test_the_test_detects_about_as_much_as_the_optimal_test():
    """Ten steps with normal noise of 0.75 % detect 2 %, as with the best test."""
    assert curve.ideal_pct(10, 2.0, 0.75) > 99.9
    normal = NormalDist(100, 0.75)
    steps = [normal.inv_cdf((place + 0.5) / 500) for place in range(500)]
    found = curve.verdicts(steps, 10, 2.0, 300)
    assert found["slower"] >= 0.95 * 300
    assert set(found) <= {"slower", "inconclusive"}


def test_the_correlation_of_neighbours():
    rising = [float(value) for value in range(8)]
    assert autocorrelation(rising, rising) == pytest.approx(0.75, abs=0.01)
    # By hand: ranks 1 … 8 about 4.5 have the sum of squares 42, products of adjacent ones 26.25.
    assert 26.25 / 42 + 1 / 8 == 0.75
    up_and_down = [1.0, 8, 2, 7, 3, 6, 4, 5]
    assert autocorrelation(up_and_down, up_and_down) == 0
    assert autocorrelation([5.0] * 8, [5.0] * 8) == 0
    assert autocorrelation([1.0, 2, 3, 4], rising) == 0


def test_a_tail_is_widened():
    normal = NormalDist()
    tail = 2 * (1 - normal.cdf(3.0))
    assert widened(tail, 4) == pytest.approx(2 * (1 - normal.cdf(6.0)), rel=1e-6)
    assert widened(tail, 1 / 9) == pytest.approx(2 * (1 - normal.cdf(1.0)))
    assert (widened(1.0, 3), widened(0.3, 1)) == (1.0, 0.3)
    assert 0 < widened(0.0, 1 / 4) < 1
    assert widened(0.001, 1_000) > 0


def test_dependent_steps_raise_fewer_alarms():
    """Adjacent samples with a correlation of 0.6 and no difference: fewer false alarms."""
    draw = random.Random(3)

    def series():
        value, found = draw.gauss(0, 1), []
        for _ in range(20):
            value = 0.6 * value + 0.8 * draw.gauss(0, 1)
            found.append(100 + value)
        return found

    pairs = [(series(), series()) for _ in range(400)]
    knowing, unknowing = (
        sum(
            compare_series(base, new, is_in_order=is_in_order).verdict in ("slower", "faster")
            for base, new in pairs
        )
        for is_in_order in (True, False)
    )
    assert unknowing > 40
    assert knowing < unknowing / 2
    rising = [100.0, 101, 102, 103, 104, 105], [102.0, 103, 104, 105, 106, 107]
    found = compare_series(*rising)
    assert found.correlation > 0.5
    assert found.p_value > rank_test(*rising)


def test_of_many_parts_fewer_differ_by_chance():
    """Benjamini and Hochberg by hand: the third of four p-values is below 3/10 of 0.5 %."""
    assert chance_limit([0.0014, 0.0001, None, 0.0012, 0.004], 10) == 0.0014
    assert chance_limit([0.0014, 0.0012, 0.004], 10) == 0.0
    assert chance_limit([0.004], 1) == 0.004
    assert chance_limit([], 0) == 0.0


def _series(count, factor=1.0, seed=0):
    source = random.Random(seed)
    return [round(factor * 1e6 * source.gauss(1, 0.02)) for _ in range(count)]


@pytest.mark.parametrize("count", [1_000, 1_001, 6_000])
def test_more_measurements_than_a_float_counts_ways(count):
    base, new = _series(count, seed=1), _series(count, 1.03, seed=2)
    found = compare_series(base, new)
    assert found.verdict == "slower"
    assert found.low < 30_000 < found.high
    # The standard error of a median is 1.2533 times the standard error of a mean; the quantile is
    # 2.807.
    error = 1.2533 * 20_000 * math.sqrt(2 / count)
    assert found.high - found.low == pytest.approx(2 * 2.807 * error, rel=0.3)


def test_the_interval_is_continuous_at_the_normal_approximation():
    found = [compare_series(_series(n, seed=1), _series(n, 1.03, seed=2)) for n in (1_000, 1_002)]
    widths = [one.high - one.low for one in found]
    assert widths[1] == pytest.approx(widths[0], rel=0.05)


@pytest.mark.parametrize("drawn", [400, 900])
def test_the_tail_is_the_sum_of_its_ways(drawn):
    for needed in range(drawn * 2 // 5, drawn * 3 // 5, 20):
        ways = sum(math.comb(drawn, hits) for hits in range(needed, drawn + 1))
        assert at_least(drawn, needed, 0.5) == pytest.approx(ways / 2**drawn, abs=1e-4)


@pytest.mark.parametrize("is_whole", [True, False])
def test_every_place_among_the_differences_of_pairs(is_whole):
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


@pytest.mark.nightly("measures memory")
def test_memory_grows_with_measurements_and_not_with_pairs():
    base, new = _series(2_000, seed=1), _series(2_000, seed=2)
    tracemalloc.start()
    assert compare_series(base, new).verdict == "same"
    drift_pct(base)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Four million pairs of floats would take 128 MB.
    assert peak_bytes < 40_000_000


def test_drift_covers_the_complete_series():
    source = random.Random(5)
    rising = [1e6 * (1 + 0.1 * n / 5_000) + source.gauss(0, 100) for n in range(5_000)]
    found = drift_pct(rising)
    assert found == pytest.approx(100 * 0.1 / 1.05, rel=0.01)
    assert drift_pct(_series(5_000)) is None
