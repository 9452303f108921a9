"""Analyses latency, latency_cdf, throughput and requests: a load of seven requests on paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tracekit

MakeRun = Callable[..., Path]
MS = 1_000_000


def request(number: int, outcome: str = "ok", **members: Any) -> dict[str, Any]:
    for name in ("arrival_ns", "sent_ns", "first_token_ns", "end_ns"):
        if name in members:
            members[name] *= MS
    members["token_ns"] = [value * MS for value in members.get("token_ns", [])]
    return {"request_id": number, "outcome": outcome, "prompt_token_count": 4, **members}


REQUESTS = [
    request(
        0,
        arrival_ns=0,
        sent_ns=1,
        first_token_ns=11,
        token_ns=[11, 21, 31],
        end_ns=32,
        output_token_count=3,
        steps=[[1, 2], [4, 4]],
    ),
    request(
        1,
        arrival_ns=0,
        sent_ns=2,
        first_token_ns=22,
        token_ns=[22, 42, 82],
        end_ns=82,
        output_token_count=3,
    ),
    # Two tokens in its first chunk.
    request(
        2,
        arrival_ns=10,
        sent_ns=10,
        first_token_ns=50,
        token_ns=[50, 70],
        token_counts=[2, 1],
        end_ns=70,
        output_token_count=3,
    ),
    # Not streamed: the whole answer at its end.
    request(3, arrival_ns=20, sent_ns=25, end_ns=125, output_token_count=5),
    request(4, "timeout", arrival_ns=30, sent_ns=30, end_ns=630, reason="not done in 600 ms"),
    request(5, arrival_ns=-100, sent_ns=-100, end_ns=-50, is_warmup=True, output_token_count=9),
    request(6, arrival_ns=900, sent_ns=900, end_ns=990, is_profiled=True, output_token_count=9),
]


@pytest.fixture
def serving(make_run: MakeRun) -> Iterator[tracekit.Trace]:
    folder = make_run("light", REQUESTS, stage="serve", engine="lightllm", model={"name": "tiny"})
    with tracekit.open(folder, traces=False, cache=False) as trace:
        yield trace


def by_metric(trace: tracekit.Trace, **params: object) -> dict[str, tuple[Any, ...]]:
    """Count, mean, p50, p90, p99 and maximum of each metric, in ms."""
    return {
        row["metric"]: (
            row["value_count"],
            *(
                None if row[name] is None else pytest.approx(row[name] / MS)
                for name in ("mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns")
            ),
        )
        for row in trace.query("latency", **params).to_dicts()
    }


def test_latency_on_paper(serving: tracekit.Trace) -> None:
    assert by_metric(serving) == {
        # 31, 60, 80, 100: the median is the second of four, not a value between.
        "e2e": (4, 67.75, 60, 100, 100, 100),
        "ttft": (3, pytest.approx(70 / 3), 20, 40, 40, 40),
        # (31 - 11) / 2, (82 - 22) / 2, and (70 - 50) / 1: the first chunk holds two of three.
        "tpot": (3, 20, 20, 30, 30, 30),
        "itl": (5, 20, 20, 40, 40, 40),
        "client_wait": (4, 2, 1, 5, 5, 5),
    }
    for row in serving.query("latency").to_dicts():
        assert (row["run"], row["engine"]) == ("light", "lightllm")
        assert (row["ok_count"], row["left_out_count"]) == (4, 1)


def test_latency_since_the_schedule_wanted_it(serving: tracekit.Trace) -> None:
    found = by_metric(serving, since="arrival")
    assert found["e2e"] == (4, 69.75, 60, 105, 105, 105)
    assert found["ttft"] == (3, pytest.approx(73 / 3), 22, 40, 40, 40)
    assert found["itl"] == by_metric(serving)["itl"]


def test_percentiles_are_those_of_the_nearest_rank(make_run: MakeRun) -> None:
    """Of 1 to 200 ms: the 100th, the 180th and the 198th."""
    load = [request(n, sent_ns=0, end_ns=n, token_ns=[]) for n in range(200, 0, -1)]
    folder = make_run("many", load, stage="serve", engine="vllm")
    with tracekit.open(folder, traces=False, cache=False) as trace:
        found = by_metric(trace)
        curve = trace.query("latency_cdf").to_dicts()
        every = trace.query("latency_cdf", points=0)
    assert found["e2e"] == (200, 100.5, 100, 180, 198, 200)
    # Without an instant for it there is no value, and none is made up.
    assert found["ttft"] == found["client_wait"] == (0, None, None, None, None, None)
    assert [row["value_ns"] // MS for row in curve] == list(range(2, 201, 2))
    assert [row["cumulative_pct"] for row in curve] == list(range(1, 101))
    assert len(every) == 200


def test_the_distribution_on_paper(serving: tracekit.Trace) -> None:
    def points(**params: object) -> list[tuple[Any, ...]]:
        rows = serving.query("latency_cdf", **params).to_dicts()
        return [(r["value_ns"] / MS, r["cumulative_count"], r["cumulative_pct"]) for r in rows]

    every = [(31, 1, 25), (60, 2, 50), (80, 3, 75), (100, 4, 100)]
    assert points() == points(points=0) == every
    assert points(points=2) == [(60, 2, 50), (100, 4, 100)]
    assert points(points=1) == [(100, 4, 100)]
    # Equal values are one point.
    assert points(metric="itl") == [(10, 2, 40), (20, 4, 80), (40, 5, 100)]
    assert len(points(metric="all")) == 4 + 3 + 3 + 3 + 4


def test_throughput_on_paper(serving: tracekit.Trace) -> None:
    """From 1 ms, the first sent, to 125 ms, the last end of one that succeeded."""
    (row,) = serving.query("throughput").to_dicts()
    assert (row["run"], row["engine"], row["model"]) == ("light", "lightllm", "tiny")
    assert (row["request_count"], row["ok_count"], row["left_out_count"]) == (5, 4, 1)
    assert (row["prompt_token_count"], row["output_token_count"]) == (16, 14)
    assert row["interval_ns"] == 124 * MS
    assert row["requests_per_s"] == pytest.approx(4 / 0.124)
    assert row["output_tokens_per_s"] == pytest.approx(14 / 0.124)
    assert row["total_tokens_per_s"] == pytest.approx(30 / 0.124)


def test_tokens_that_are_not_known_of_every_request(make_run: MakeRun) -> None:
    load = [request(0, sent_ns=0, end_ns=10, output_token_count=5), request(1, sent_ns=0, end_ns=9)]
    folder = make_run("some", load, stage="serve", engine="openai")
    with tracekit.open(folder, traces=False, cache=False) as trace:
        (row,) = trace.query("throughput").to_dicts()
    assert (row["prompt_token_count"], row["output_token_count"]) == (8, None)
    assert (row["requests_per_s"], row["output_tokens_per_s"]) == (200.0, None)
    assert row["total_tokens_per_s"] is None


@pytest.mark.parametrize(
    ("source", "prompt_token_count", "total_tokens_per_s"),
    [("text", None, None), ("usage", 8, 1_200.0), ("token_ids", 8, 1_200.0)],
)
def test_words_of_a_prompt_are_not_its_tokens(
    make_run: MakeRun,
    source: str,
    prompt_token_count: int | None,
    total_tokens_per_s: float | None,
) -> None:
    """A prompt that went out as text counts once the server has said how many tokens it is."""
    load = [
        request(0, sent_ns=0, end_ns=10, output_token_count=2, prompt_source="usage"),
        request(1, sent_ns=0, end_ns=10, output_token_count=2, prompt_source=source),
        request(2, "timeout", sent_ns=0, end_ns=99, prompt_source="text"),
    ]
    folder = make_run("some", load, stage="serve", engine="openai")
    with tracekit.open(folder, traces=False, cache=False) as trace:
        (row,) = trace.query("throughput").to_dicts()
    assert row["prompt_token_count"] == prompt_token_count
    assert row["total_tokens_per_s"] == total_tokens_per_s
    assert (row["output_token_count"], row["output_tokens_per_s"]) == (4, 400.0)


def test_requests_the_slowest_first(serving: tracekit.Trace) -> None:
    def listed(**params: object) -> list[int]:
        return serving.query("requests", **params).column("request_id")

    rows = serving.query("requests").to_dicts()
    assert [row["request_id"] for row in rows] == [4, 3, 1, 2, 0]
    assert rows[0]["reason"] == "not done in 600 ms"
    assert [row["e2e_ns"] // MS for row in rows] == [600, 100, 80, 60, 31]
    assert [row["max_itl_ns"] and row["max_itl_ns"] // MS for row in rows] == [
        None,
        None,
        40,
        20,
        10,
    ]
    assert [row["step_count"] for row in rows] == [None, None, None, None, 3]
    assert listed(limit=2) == [4, 3]
    assert listed(outcome="ok") == [3, 1, 2, 0]
    assert listed(kind="warmup") == [5]
    assert listed(kind="profiled") == [6]
    assert listed(kind="all", limit=0) == [4, 3, 6, 1, 2, 5, 0]


def test_engines_are_compared(make_run: MakeRun, tmp_path: Path) -> None:
    for engine, slow in (("vllm", 20), ("lightllm", 10)):
        load = [request(n, sent_ns=0, end_ns=slow * n, output_token_count=1) for n in (1, 2)]
        make_run(engine, load, stage="serve", engine=engine)
    with tracekit.open(tmp_path, traces=False, cache=False) as trace:
        rows = trace.query("latency").to_dicts()
        rates = trace.query("throughput").to_dicts()
    e2e = [(row["engine"], row["max_ns"] // MS) for row in rows if row["metric"] == "e2e"]
    assert e2e == [("lightllm", 20), ("vllm", 40)]
    assert [(row["engine"], row["requests_per_s"]) for row in rates] == [
        ("lightllm", 100.0),
        ("vllm", 50.0),
    ]


@pytest.mark.parametrize(
    ("failed", "severity"), [(0, "ok"), (1, "note"), (5, "note"), (6, "warn"), (100, "warn")]
)
def test_many_requests_left_out_are_a_warning(
    make_run: MakeRun, failed: int, severity: str
) -> None:
    """Of a hundred: up to five are noted."""
    load = [request(n, "refused" if n < failed else "ok", sent_ns=0, end_ns=1) for n in range(100)]
    # Those outside of the measured load count on neither side.
    load += [request(n, "refused", is_warmup=True) for n in range(100, 150)]
    folder = make_run("some", load, stage="serve", engine="vllm")
    with tracekit.open(folder, traces=False, cache=False) as trace:
        rows = {row["metric"]: row for row in trace.query("run_health").to_dicts()}
    found = rows["requests_left_out"]
    assert (found["value"], found["severity"]) == (failed, severity)


def test_a_load_of_which_nothing_succeeded(make_run: MakeRun) -> None:
    load = [request(n, "refused", end_ns=1) for n in range(3)]
    folder = make_run(
        "down",
        load,
        stage="serve",
        engine="tgi",
        load={
            "request_count": 4,
            "prompt_token_count": 4,
            "max_new_token_count": 3,
        },
    )
    with tracekit.open(folder, traces=False, cache=False) as trace:
        assert {row["value_count"] for row in trace.query("latency").to_dicts()} == {0}
        assert len(trace.query("latency_cdf")) == 0
        (row,) = trace.query("throughput").to_dicts()
        health = {row["metric"]: row["value"] for row in trace.query("run_health").to_dicts()}
    assert (row["ok_count"], row["left_out_count"], row["requests_per_s"]) == (0, 3, None)
    assert (health["requests_left_out"], health["requests_missing"]) == (3, 1)


def test_throughput_over_time_adds_up_to_throughput(make_run: MakeRun) -> None:
    streamed = [one for one in REQUESTS if one["request_id"] != 3]
    folder = make_run("streamed", streamed, stage="serve", engine="vllm", model={"name": "tiny"})
    with tracekit.open(folder, traces=False, cache=False) as trace:
        (whole,) = trace.query("throughput").to_dicts()
        rows = trace.query("throughput_over_time", points=3).to_dicts()
        many = trace.query("throughput_over_time", points=1_000).to_dicts()
    # From 1 to 82 ms: parts of 27 ms. Tokens at 11, 21, 22; 31, 42, 2 at 50; 70, 82.
    assert whole["interval_ns"] == 81 * MS
    assert [row["start_ns"] for row in rows] == [1 * MS, 28 * MS, 55 * MS]
    assert [row["output_token_count"] for row in rows] == [3, 4, 2]
    assert rows[0]["output_tokens_per_s"] == pytest.approx(3 / 0.027)
    assert [row["sent_count"] for row in rows] == [3, 1, 0]
    # The one that fails ends after the interval, which the last part stands for.
    assert [row["ended_count"] for row in rows] == [0, 1, 3]
    assert [row["ok_count"] for row in rows] == [0, 1, 2]
    assert [row["running_count"] for row in rows] == [3, 3, 0]
    for found in (rows, many):
        assert sum(row["dur_ns"] for row in found) == whole["interval_ns"]
        assert sum(row["output_token_count"] for row in found) == whole["output_token_count"]


def test_throughput_over_time_says_nothing_of_tokens_without_times(serving: tracekit.Trace) -> None:
    rows = serving.query("throughput_over_time", points=4).to_dicts()
    assert {row["output_token_count"] for row in rows} == {None}
    assert {row["output_tokens_per_s"] for row in rows} == {None}
    assert sum(row["ok_count"] for row in rows) == 4
