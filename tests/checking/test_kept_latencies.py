"""Relative rules on percentiles: the latencies of a baseline count like the latencies of a run."""

import json
import random

import pytest
from msgspec.structs import replace
from sides_by_hand import gemm_side
from traces_by_hand import kernel

from tracekit.checking.baseline import Baseline, load, save
from tracekit.checking.checking import check, make_baseline
from tracekit.checking.evaluate import judge
from tracekit.checking.rules import parse_rule
from tracekit.comparison.quantiles import Ordered, quantile_difference, thinned
from tracekit.comparison.serving import QUANTILES


def _latencies(count, factor=1.0, seed=0):
    source = random.Random(seed)
    return [round(factor * 1e8 * source.lognormvariate(0, 0.2)) for _ in range(count)]


def _baseline(series):
    kept = {"ttft": thinned(series, QUANTILES, 1_000)}
    figures = {"p99(ttft)": 1.0, "p90(ttft)": 1.0, "p50(ttft)": 1.0}
    return Baseline("main", gemm_side([1]), {}, figures, None, [], [], kept, {}, "now")


@pytest.mark.parametrize("count", [900, 5_000])
@pytest.mark.parametrize("quantile", [90, 99])
def test_thinned_values_lead_to_the_same_verdict(count, quantile):
    base, new = _latencies(count, seed=1), _latencies(count, 1.07, seed=2)
    of_all = quantile_difference(base, new, quantile)
    of_kept = quantile_difference(thinned(base, QUANTILES, 1_000), new, quantile)
    assert of_kept == of_all
    assert of_all.low is not None


def test_the_median_of_many_is_judged_by_its_interval():
    base, new = _latencies(5_000, seed=1), _latencies(5_000, 1.1, seed=2)
    kept = quantile_difference(thinned(base, [50], 1_000), new, 50)
    assert (kept.low, kept.high, kept.verdict) == (
        *(getattr(quantile_difference(base, new, 50), end) for end in ("low", "high")),
        "slower",
    )


@pytest.mark.parametrize(
    ("rule", "factor", "outcome"),
    [
        ("p99(ttft) <= +5%", 1.5, "failed"),
        ("p99(ttft) <= +50%", 1.0, "passed"),
        ("p50(ttft) <= +5%", 1.2, "failed"),
        ("p90(ttft) <= +5%", 1.05, "inconclusive"),
    ],
)
@pytest.mark.parametrize("count", [800, 5_000])
def test_rules_on_percentiles(rule, factor, outcome, count, tmp_path):
    save(_baseline(_latencies(count, seed=3)), tmp_path)
    new = _baseline(_latencies(count, factor, seed=3))
    found = judge(parse_rule(rule), new, load("main", tmp_path))
    assert found.outcome == outcome, found.reason
    assert f"{count:,} vs. {count:,} requests" in found.reason


def test_it_stays_small(tmp_path):
    kept = _baseline(_latencies(100_000))
    kept = replace(kept, latencies=dict.fromkeys(("e2e", "ttft", "tpot"), kept.latencies["ttft"]))
    _, size_bytes = save(kept, tmp_path)
    assert size_bytes < 50_000
    assert load("main", tmp_path) == kept


@pytest.mark.nightly("reads two runs of many requests")
def test_a_gate_on_the_latency_of_a_run(make_run, opened, tmp_path):
    """The runs have more requests than a baseline keeps."""
    answers = {"outcome": "ok", "sent_ns": 0, "output_token_count": 1}

    def served(factor):
        load = [
            answers | {"request_id": n, "first_token_ns": ns, "token_ns": [ns], "end_ns": 2 * ns}
            for n, ns in enumerate(_latencies(2_000, factor))
        ]
        made = make_run(f"served_{factor}", load, stage="serve")
        (made / "rank0.json").write_text(json.dumps({"traceEvents": [kernel("k", 1, 3)]}))
        return opened(made)

    base, slow = served(1.0), served(1.5)
    save(make_baseline("main", base, "served"), tmp_path)
    rules = [parse_rule("p50(ttft) <= +5%"), parse_rule("p50(e2e) <= +80%")]
    report = check(slow, rules, against="main", baselines=tmp_path)
    assert [one.outcome for one in report.judgements] == ["failed", "passed"]
    against_run = check(slow, rules, against=base)
    assert report.judgements == against_run.judgements


def test_a_baseline_without_the_compared_values_is_inconclusive(tmp_path):
    kept = _baseline(_latencies(600))
    save(replace(kept, latencies={"ttft": Ordered(5_000, [1, 2], [0, 4_000])}), tmp_path)
    again = load("main", tmp_path)
    assert again.latencies == {}
    found = judge(parse_rule("p99(ttft) <= +5%"), kept, again)
    assert (found.outcome, found.reason) == ("inconclusive", "one value each: noise unknown")
