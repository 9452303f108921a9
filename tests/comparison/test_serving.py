"""Serving compared: runs of a few requests and steps that can be read, and statistics by hand."""

import random
from fractions import Fraction

import pytest
from every_trace import REPO

import tracekit
from tracekit.comparison.quantiles import quantile_difference, rate_difference
from tracekit.comparison.serving import Served, ServingStep, compare_serving

SAMPLES = REPO / "sample_traces"


def decode(count, time_ns):
    return ServingStep("decode", 0, count, Fraction(time_ns))


def batches(base, new):
    found = compare_serving(Served({}, [], base), Served({}, [], new), 1.0)
    assert found.batches[-1].phase == "all"
    for one in found.batches:
        if one.by_cost_ns is not None:
            parts = (one.by_batch_ns, one.by_own_batch_ns, one.by_cost_ns)
            assert sum(part or 0 for part in parts) == one.new_ns - one.base_ns
    return found.batches[0]


@pytest.mark.parametrize(
    ("base", "new", "parts"),
    [
        # The same batches, each 100 ns longer.
        ([(1, 1000), (2, 2000)], [(1, 1100), (2, 2100)], (0, 0, 100)),
        # More often the large batch: (1/4 · 1000 + 3/4 · 2000) − 1500.
        ([(1, 1000), (2, 2000)], [(1, 1000), (2, 2000), (2, 2000), (2, 2000)], (250, 0, 0)),
        # A batch without a counterpart in the base.
        ([(1, 1000)], [(1, 1000), (8, 4000)], (0, 1500, 0)),
        # Complete: shares change by 1/4 at costs of 1050 and 2100, and costs rise at shares of 3/8
        # and 5/8.
        ([(1, 1000), (2, 2000)], [(1, 1100), (2, 2200), (2, 2200), (2, 2200)], (263, 0, 162)),
        # No batch is on both sides, or the trace has no batches.
        ([(1, 1000)], [(8, 1000)], (None, None, None)),
        ([(None, 1000)], [(8, 1000)], (None, None, None)),
    ],
)
def test_a_difference_of_steps_is_split(base, new, parts):
    found = batches([decode(*one) for one in base], [decode(*one) for one in new])
    assert (found.by_batch_ns, found.by_own_batch_ns, found.by_cost_ns) == parts
    assert found.phase == "decode"


def test_prefill_and_decode_are_apart():
    prefill = [ServingStep("prefill", 64, 0, Fraction(9000))]
    base = Served({}, [], [*prefill, decode(1, 1000)])
    found = compare_serving(base, Served({}, [], [*prefill, decode(1, 2000)]), 1.0)
    assert {one.phase: one.by_cost_ns for one in found.batches} == {
        "prefill": 0,
        "decode": 1000,
        "all": 500,
    }


def test_a_percentile_has_an_interval_or_the_required_number_of_requests():
    base = list(range(1000, 1050))
    found = quantile_difference(base, [value + 500 for value in base], 90)
    assert (found.base, found.new, found.verdict) == (1044, 1544, "slower")
    assert 500 - 49 < found.low < 500 < found.high < 500 + 49
    few = quantile_difference(base, base, 99)
    assert (few.low, few.verdict) == (None, "inconclusive")
    enough = [1000 + n % 7 for n in range(50 + few.more_count)]
    assert quantile_difference(enough, enough, 99).verdict == "same"


def test_the_interval_is_that_of_the_bootstrap():
    """Compared with draws, because the distribution is computed."""
    source = random.Random(1)
    base = [source.randrange(1000, 2000) for _ in range(80)]
    new = [source.randrange(1100, 2100) for _ in range(90)]
    found = quantile_difference(base, new, 75, alpha=0.1)

    def drawn(series):
        ordered = sorted(source.choices(series, k=len(series)))
        return ordered[-(-75 * len(series) // 100) - 1]

    differences = sorted(drawn(new) - drawn(base) for _ in range(4000))
    # As many draws lie outside as are to, give or take five standard deviations of that.
    below = sum(value < found.low for value in differences)
    above = sum(value > found.high for value in differences)
    assert 0.02 * 4000 < below < 0.07 * 4000
    assert 0.02 * 4000 < above < 0.07 * 4000


def test_equal_loads_rarely_differ_significantly():
    source = random.Random(2)
    wrong = 0
    for _ in range(200):
        sides = [[source.lognormvariate(0, 0.5) * 1e6 for _ in range(60)] for _ in range(2)]
        base, new = ([round(value) for value in side] for side in sides)
        wrong += quantile_difference(base, new, 90).verdict in ("slower", "faster")
    assert wrong <= 4


def test_a_rate_is_of_all_answers():
    steady = [(8, 1000 + n % 3) for n in range(60)]
    found = rate_difference(steady, [(8, time * 2) for _, time in steady])
    assert found.base == pytest.approx(1e9 * 8 * 60 / sum(time for _, time in steady))
    assert found.new == pytest.approx(found.base / 2)
    assert found.verdict == "slower"
    assert rate_difference(steady, steady).verdict == "same"
    assert rate_difference(steady[:5], steady[:5]).low is None


def test_answers_without_counts_have_no_token_rate():
    answers = [(None, 1000)] * 20
    found = compare_serving(Served({}, answers, []), Served({}, answers, []), 1.0)
    assert list(found.rates) == ["requests_per_s"]
    assert compare_serving(Served({}, [], []), Served({}, answers, []), 1.0) is None


@pytest.mark.nightly("compares complete runs")
def test_the_samples(opened):
    sides = opened(SAMPLES / "serve_transformers"), opened(SAMPLES / "serve_vllm")
    results = tracekit.compare(*sides).results()
    for side, place in zip(sides, ("base", "new"), strict=True):
        latencies = {row["metric"]: row for row in side.query("latency").to_dicts()}
        for row in results["comparison_latency"].to_dicts():
            for name in ("difference", "low", "high"):
                part, share = row[f"{name}_ns"], row[f"{name}_pct"]
                wanted = None if part is None else 100 * part / row["base_ns"]
                assert share == (wanted if wanted is None else pytest.approx(wanted))
            assert row[f"{place}_ns"] == latencies[row["metric"]][f"{row['statistic']}_ns"]
        (rates,) = side.query("throughput").to_dicts()
        for row in results["comparison_throughput"].to_dicts():
            assert row[f"{place}_per_s"] == pytest.approx(rates[f"{row['rate']}_per_s"], rel=1e-12)
        steps = [row for row in side.query("serving_steps").to_dicts() if row["step"] is not None]
        (whole,) = (
            row for row in results["comparison_batches"].to_dicts() if row["phase"] == "all"
        )
        assert whole[f"{place}_step_count"] == len(steps)
        mean = sum(row["wall_ns"] + row["idle_ns"] for row in steps) / len(steps)
        assert whole[f"{place}_ns"] == pytest.approx(mean, abs=0.5)
