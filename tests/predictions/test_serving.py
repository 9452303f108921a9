"""Loads on a serving engine with a schedule that can be computed by hand.

Prefill steps take 20 ms and decode-only steps 10 ms; prompts have 64 tokens, and answers 3.
"""

import json

import pytest
from every_trace import REPO
from msgspec.structs import replace

import tracekit
from tracekit.errors import QueryError, UsageError
from tracekit.prediction.batching import Engine, Request, Serving, Work
from tracekit.prediction.serving import MEASURES
from tracekit.prediction.step_times import StepTimes, Timed

SAMPLE = REPO / "sample_traces" / "serve_transformers"
MS = 1_000_000
LOAD = {"request_count": 5, "prompt_token_count": 64, "max_new_token_count": 3}

# When each is wanted, its first and last step, and when its tokens come, ms.
FIVE = [
    (0, 1, 3, (20, 40, 50)),
    (10, 2, 4, (40, 50, 60)),
    (100, 5, 7, (120, 130, 150)),
    (125, 7, 9, (150, 160, 170)),
    (200, 10, 12, (220, 230, 240)),
]
ONE_BY_ONE = [
    (0, 1, 3, (20, 30, 40)),
    (10, 4, 6, (60, 70, 80)),
    (100, 7, 9, (120, 130, 140)),
    (125, 10, 12, (160, 170, 180)),
    (200, 13, 15, (220, 230, 240)),
]
APART = [
    (100 * k, 3 * k + 1, 3 * k + 3, (100 * k + 20, 100 * k + 30, 100 * k + 40)) for k in range(5)
]


def serving_run(make_run, load, name="served", **members):
    requests = [
        {
            "request_id": number, "outcome": "ok", "is_warmup": False, "is_profiled": False,
            "prompt_token_count": 64, "prompt_source": "token_ids", "output_token_count": 3,
            "arrival_ns": at * MS, "sent_ns": at * MS, "first_token_ns": tokens[0] * MS,
            "end_ns": tokens[-1] * MS, "token_ns": [token * MS for token in tokens],
            "steps": [[first, last]],
        }
        for number, (at, first, last, tokens) in enumerate(load)
    ]  # fmt: skip
    known = {"stage": "serve", "engine": "transformers", "load": LOAD}
    return make_run(name, requests, **(known | members))


def figures_of(measures):
    """Return TTFT and TPOT (mean, median, and p99) and ITL in ms, and tokens/s to a thousandth."""
    assert list(measures) == list(MEASURES)
    *times, rate = measures.values()
    return (*(time / MS for time in times), round(rate, 3))


RECORDED = (23, 20, 30, 12, 10, 15, 20, 62.5)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("rate x1", RECORDED),
        ("batch limit=5", RECORDED),
        # First tokens at 20, 40, 70, 90, 120, wanted at 0, 5, 50, 62.5, 100; the last at 140.
        ("rate x2", (24.5, 20, 35, 14, 15, 15, 20, 107.143)),
        # Each in 40 ms, from 0, 40, 100, 140 and 200.
        ("batch limit=1", (29, 20, 50, 10, 10, 10, 10, 62.5)),
        ("kv tokens=100", (29, 20, 50, 10, 10, 10, 10, 62.5)),
        # First tokens at 20, 40, 120, 145, 220, each followed by two decode steps.
        ("prefill apart", (22, 20, 30, 10, 10, 10, 10, 62.5)),
    ],
)
def test_five_requests(make_run, change, expected):
    with tracekit.open(serving_run(make_run, FIVE), cache=False) as trace:
        found = trace.predict(change)
    assert figures_of(found.recorded) == figures_of(found.replayed) == RECORDED
    assert figures_of(found.predicted) == expected
    assert all(found.low[name] <= found.predicted[name] <= found.high[name] for name in MEASURES)


def test_unrecorded_changes_are_rejected(make_run):
    with tracekit.open(serving_run(make_run, FIVE), cache=False) as trace:
        for change in ("rate x5", "batch tokens=64", "kv tokens=130", "kv tokens=60"):
            with pytest.raises(QueryError):
                trace.predict(change)
        for text in ("rate remove", "rate rank=1 x2", "rate x0", "batch limit=0", "kv x2"):
            with pytest.raises(UsageError):
                trace.predict(text)


def test_another_run_provides_step_times(make_run):
    alone, busy = serving_run(make_run, APART, "alone"), serving_run(make_run, FIVE, "busy")
    with tracekit.open(alone, cache=False) as trace, pytest.raises(QueryError):
        trace.predict("rate x4")
    with tracekit.open(alone, busy, cache=False) as trace:
        found = trace.predict("rate x4")
    assert figures_of(found.recorded) == (20, 20, 20, 10, 10, 10, 10, 34.091)
    # First tokens at 20, 50, 70, 100 and 120, wanted every 25; the last at 140.
    assert figures_of(found.predicted) == (22, 20, 25, 14, 15, 15, 20, 107.143)
    assert any("busy" in assumption for assumption in found.assumptions)
    with tracekit.open(busy, alone, cache=False) as trace:
        assert figures_of(trace.predict("rate x1").recorded) == RECORDED
    other = serving_run(make_run, FIVE, "other", precision="fp32")
    with tracekit.open(alone, other, cache=False) as trace, pytest.raises(QueryError):
        trace.predict("rate x4")


def test_exit_codes(make_run, cli):
    # Requests wait for each other for an unknown reason.
    odd = serving_run(make_run, ONE_BY_ONE, "odd")
    result = cli("predict", odd, "--change", "rate x0.25", "--format", "json")
    assert result.exit_code == 7
    assert result.json()["predicted"] is None
    five = serving_run(make_run, FIVE, "five")
    assert cli("predict", five, "--change", "rate x5").exit_code == 5
    assert cli("predict", five, "--change", "rate x2", "--change", "host x2").exit_code == 2


def test_runs_without_the_required_data(make_run, kernels):
    lines = [json.loads(line) for line in (SAMPLE / "requests.jsonl").read_text().splitlines()]
    known = {"stage": "serve", "engine": "vllm", "load": LOAD}
    without = make_run("without", [line | {"steps": None} for line in lines], **known)
    failed = make_run("failed", [line | {"outcome": "timeout"} for line in lines], **known)
    for place in (without, failed, kernels):
        with tracekit.open(place, cache=False) as trace, pytest.raises(QueryError):
            trace.predict("batch limit=4")
    # A burst has no rate.
    with tracekit.open(SAMPLE, traces=False, cache=False) as trace, pytest.raises(QueryError):
        trace.predict("rate x2")


def test_recorded_figures_are_those_of_the_analyses():
    with tracekit.open(SAMPLE, traces=False, cache=False) as trace:
        found = trace.predict("batch limit=32")
        rows = {row["metric"]: row for row in trace.query("latency", since="arrival").to_dicts()}
        (throughput,) = trace.query("throughput").to_dicts()
    for what in ("ttft", "tpot"):
        for which in ("mean", "p50", "p99"):
            name = f"{which}_ns"
            assert found.recorded[f"{what}_{name}"] == pytest.approx(rows[what][name], abs=1)
    rate = throughput["output_tokens_per_s"]
    assert found.recorded["output_tokens_per_s"] == pytest.approx(rate)


def test_a_prompt_is_read_in_parts():
    served = Serving(
        [Request(0, 0, 64, 2), Request(0, 0, 64, 2)], Engine(batch_token_count=100), lambda _: 10
    )
    assert [work for work, _ in served.steps] == [
        Work(100, 0, 64 + 36), Work(28, 1, 65 + 64), Work(0, 1, 65)
    ]  # fmt: skip
    assert (served.first_ns, served.end_ns) == ([10, 20], [20, 30])


def test_clients_hold_back_and_are_late():
    requests = [Request(0, 3, 8, 2), Request(0, 4, 8, 1), Request(100, 0, 8, 1)]
    one = Engine(in_flight_limit=1)
    served = Serving(requests, one, lambda _: 10)
    assert (served.sent_ns, served.end_ns) == ([3, 27, 100], [23, 37, 110])
    # A request that arrives soon enough joins the current step.
    two = replace(one, in_flight_limit=None, wake_ns=1)
    assert Serving(requests, two, lambda _: 10).first_ns == [13, 13, 110]
    assert Serving(requests, replace(two, wake_ns=0), lambda _: 10).first_ns == [13, 23, 110]


def test_pages_of_the_cache():
    """Of 4 tokens: the 5 of a prompt have two, and the fourth that is decoded needs a third."""
    requests = [Request(0, 0, 5, 5), Request(5, 0, 5, 5)]
    for pages, ends in ((6, [50, 60]), (4, [50, 100])):
        engine = Engine(page_count=pages, page_token_count=4)
        if pages == 4:
            with pytest.raises(QueryError):
                Serving(requests, engine, lambda _: 10)
            engine = replace(engine, free_pct=60)
        assert Serving(requests, engine, lambda _: 10).end_ns == ends


def test_step_times_are_those_of_a_line():
    def takes(work):
        prefill, decodes, context = work
        if prefill:
            return 5000 + 7 * prefill + 30 * decodes + 2 * context + (prefill + decodes) * context
        return 900 + 40 * decodes + context

    works = [Work(0, 1 + i % 8, (1 + i % 8) * (50 + i % 13)) for i in range(200)]
    works += [Work(16 + i % 5, i % 7, 20 + (i % 7) * (50 + i % 11)) for i in range(200)]
    times = StepTimes([Timed((work,), takes(work)) for work in works])
    for step_ns in (times.usual(), times.drawn(3)):
        for work in (Work(0, 3, 171), Work(17, 2, 130), *works):
            assert step_ns(work) == pytest.approx(takes(work), abs=1)
    assert times.unknown([(Work(0, 3, 171), 10)]) == (0.0, "")
    assert times.unknown([(Work(0, 12, 600), 30), (Work(17, 2, 130), 10)])[0] == 75
