"""Latency of loads of many requests; small loads are in tests/cases/latency.case."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit

MakeRun = Callable[..., Path]
MS = 1_000_000


def request(number: int, outcome: str = "ok", **members: Any) -> dict[str, Any]:
    times = {name: members.pop(name) * MS for name in ("sent_ns", "end_ns") if name in members}
    return {"request_id": number, "outcome": outcome, "prompt_token_count": 4, **times, **members}


def test_percentiles_are_those_of_the_nearest_rank(make_run: MakeRun) -> None:
    """Of 1 to 200 ms: the 100th, the 180th and the 198th."""
    load = [request(n, sent_ns=0, end_ns=n, token_ns=[]) for n in range(200, 0, -1)]
    folder = make_run("many", load, stage="serve", engine="vllm")
    with tracekit.open(folder, traces=False, cache=False) as trace:
        found = {row["metric"]: row for row in trace.query("latency").to_dicts()}
        curve = trace.query("latency_cdf").to_dicts()
        every = trace.query("latency_cdf", points=0)
    names = ("mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns")
    assert [found["e2e"][name] / MS for name in names] == [100.5, 100, 180, 198, 200]
    # Without an instant for it there is no value, and none is made up.
    for metric in ("ttft", "client_wait"):
        assert found[metric]["value_count"] == 0
        assert {found[metric][name] for name in names} == {None}
    assert [row["value_ns"] // MS for row in curve] == list(range(2, 201, 2))
    assert [row["cumulative_pct"] for row in curve] == list(range(1, 101))
    assert len(every) == 200


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
