"""Analyses request_steps and request_life: why a request was slow, and when it was what."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving_engine import Engine

import tracekit
from tracekit.ingest import json_lines

Opened = Callable[[Path], tracekit.Trace]
REPO = Path(__file__).resolve().parents[2]

BASE_NS = 1_700_000_000_000_000_000


def serve_run(folder: Path) -> Path:
    """A run of three steps of 10 µs from 100 µs on; request 1 waits until the second one."""
    engine = Engine()
    engine.now_us = 100.0
    engine.tk_step(0, "prefill", "prefill_1(8)_decode_0(0)")
    engine.tk_step(1, "mixed", "prefill_1(8)_decode_1(1)", kernels=[("k", 2.0), ("k", 6.0)])
    engine.tk_step(2, "decode", "prefill_0(0)_decode_2(2)")
    whole = {"baseTimeNanoseconds": BASE_NS, "traceEvents": engine.events}
    folder.mkdir()
    (folder / "rank0.json").write_text(json.dumps(whole), "utf-8")
    stated = {
        "run_id": "serve-1",
        "tracekit_version": "0",
        "created_at": "2026-01-01T00:00:00Z",
        "stage": "serve",
        "engine": "transformers",
        "traces": ["rank0.json"],
        "load": {
            "request_count": 2,
            "prompt_token_count": 8,
            "max_new_token_count": 3,
            "start_unix_ns": BASE_NS + 50_000,
        },
    }
    (folder / "run.json").write_text(json.dumps(stated))
    lines = [
        request(0, 0, 0, first_token_ns=60_000, end_ns=82_000, steps=[[0, 2]]),
        request(1, 1, 0, first_token_ns=71_000, end_ns=82_500, steps=[[1, 2]]),
        request(2, 2, 0, first_token_ns=None, end_ns=9_000, steps=None, outcome="refused"),
        request(3, 0, 1, first_token_ns=60_000, end_ns=82_000, steps=[[0, 2]]),
    ]
    (folder / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_of_half_a_file_of_requests_none_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a part of its own, so that two are in the store when the third is too many."""
    monkeypatch.setattr(json_lines, "MAX_LINES", 2)
    monkeypatch.setattr(json_lines, "PART_BYTES", 1)
    with tracekit.open(serve_run(tmp_path / "serve"), cache=False) as trace:
        held = trace.sql(
            "SELECT (SELECT count(*) FROM request), (SELECT count(*) FROM request_step)"
        )
        told = trace.sql("SELECT request_count, notes FROM run")
    assert held.rows == [(0, 0)]
    ((count, notes),) = told.rows
    assert count == 0
    assert "requests.jsonl cannot be read: more than 2 lines" in notes


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracekit.Trace]:
    folder = serve_run(tmp_path_factory.mktemp("served") / "serve")
    with tracekit.open(folder, cache=False) as trace:
        yield trace


def request(number: int, arrival_us: int, warmup: int, **members: Any) -> dict[str, Any]:
    return {
        "request_id": number,
        "is_warmup": bool(warmup),
        "outcome": "ok",
        "prompt_token_count": 8,
        "output_token_count": 3,
        "arrival_ns": arrival_us * 1_000,
        "sent_ns": arrival_us * 1_000,
        **members,
    }


def test_a_request_is_linked_to_its_steps(served: tracekit.Trace) -> None:
    slow, fast = served.query("request_steps").to_dicts()
    assert served.query("request_steps", limit=1).to_dicts() == [slow]
    assert served.query("request_steps", request=1).to_dicts() == [fast]
    assert (slow["run"], slow["request_id"], fast["request_id"]) == ("serve", 0, 1)
    assert (slow["is_profiled"], slow["ttft_ns"]) == (False, 60_000)
    assert (slow["e2e_ns"], fast["e2e_ns"]) == (82_000, 81_500)
    # Steps begin at 50, 60 and 71 µs of the load's clock.
    assert (slow["queue_ns"], fast["queue_ns"]) == (50_000, 59_000)
    assert (slow["step_count"], slow["traced_step_count"]) == (3, 3)
    assert (slow["prefill_step_count"], slow["prefill_ns"]) == (1, 10_000)
    assert (slow["decode_step_count"], slow["decode_step_ns"]) == (2, 10_500)
    assert (slow["longest_step"], slow["longest_step_ns"]) == (1, 11_000)
    assert (slow["wall_ns"], slow["idle_ns"]) == (24_000, 5_000)
    assert slow["idle_pct"] == pytest.approx(100 * 5 / 29)
    assert (fast["prefill_step_count"], fast["decode_step_count"]) == (1, 1)


def test_its_times_count_from_when_it_was_sent(tmp_path: Path) -> None:
    """The client held it back for 20 µs; these are the times of analysis requests."""
    folder = serve_run(tmp_path / "serve")
    line = request(0, 0, 0, first_token_ns=60_000, end_ns=82_000, steps=[[0, 2]], sent_ns=20_000)
    (folder / "requests.jsonl").write_text(json.dumps(line) + "\n")
    with tracekit.open(folder, cache=False) as trace:
        (row,) = trace.query("request_steps").to_dicts()
        (same,) = trace.query("requests").to_dicts()
    assert (row["e2e_ns"], row["ttft_ns"], row["queue_ns"]) == (62_000, 40_000, 30_000)
    assert (row["e2e_ns"], row["ttft_ns"]) == (same["e2e_ns"], same["ttft_ns"])


def test_steps_outside_of_the_profile_are_counted_but_not_timed(tmp_path: Path) -> None:
    folder = serve_run(tmp_path / "serve")
    line = request(5, 0, 0, first_token_ns=1, end_ns=90_000, steps=[[-4, -3], [1, 9]])
    (folder / "requests.jsonl").write_text(json.dumps(line) + "\n")
    with tracekit.open(folder, cache=False) as trace:
        (row,) = trace.query("request_steps").to_dicts()
    assert (row["step_count"], row["traced_step_count"]) == (11, 2)
    assert row["queue_ns"] is None
    assert (row["prefill_step_count"], row["decode_step_count"]) == (0, 2)


def test_queueing_is_a_distribution_over_requests(served: tracekit.Trace) -> None:
    """Request 0 queued for 50 µs, request 1 for 59; 2 was refused, and 3 warmed the engine up."""
    points = served.query("queue_cdf").rows
    assert served.query("queue_cdf", points=0).rows == points
    assert served.query("queue_cdf", points=1).rows == points[1:]
    assert points == [
        ("serve", "transformers", 50_000, 1, 50.0, 2, 1),
        ("serve", "transformers", 59_000, 2, 100.0, 2, 1),
    ]


def test_queueing_of_a_real_run_is_that_of_its_requests(opened: Opened) -> None:
    trace = opened(REPO / "sample_traces" / "serve_transformers")
    known = trace.query("request_steps", limit=0).to_dicts()
    queued = sorted(row["queue_ns"] for row in known if row["queue_ns"] is not None)
    chart = trace.plot("queue_cdf")
    assert chart.spec["encoding"]["x"]["axis"]["title"].startswith("time in the queue, ")
    assert len(chart.data["queue_cdf"]) == len(trace.query("queue_cdf"))
    points = trace.query("queue_cdf", points=0).to_dicts()
    assert queued
    assert [row["value_ns"] for row in points] == sorted(set(queued))
    assert {row["request_count"] for row in points} == {len(queued)}
    assert [row["cumulative_count"] for row in points] == [
        sum(other <= row["value_ns"] for other in queued) for row in points
    ]


def lives(trace: tracekit.Trace, **params: object) -> dict[int, list[tuple[Any, ...]]]:
    """Part, step, start and end in µs of the stretches of each request."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in trace.query("request_life", **params).to_dicts():
        stretch = (row["part"], row["step"], row["start_ns"] / 1_000, row["end_ns"] / 1_000)
        found.setdefault(row["request_id"], []).append(stretch)
    return found


def test_the_life_of_a_request_is_told_step_by_step(served: tracekit.Trace) -> None:
    found = lives(served)
    assert lives(served, limit=1) == {0: found[0]}
    assert lives(served, request=1) == {1: found[1]}
    assert list(found) == [0, 1, 2], "those in the trace first, then the one that was refused"
    assert found[0] == [
        ("queued", None, 0, 50),
        ("prefill", 0, 50, 60),
        ("decode", 1, 60, 71),
        ("decode", 2, 71, 81),
        ("answering", None, 81, 82),
    ]
    assert found[1] == [
        ("queued", None, 1, 60),
        ("prefill", 1, 60, 71),
        ("decode", 2, 71, 81),
        ("answering", None, 81, 82.5),
    ]
    assert found[2] == [("waiting", None, 2, 9)]


def test_a_life_says_what_no_trace_holds(tmp_path: Path) -> None:
    folder = serve_run(tmp_path / "serve")
    lines = [
        request(5, 0, 0, first_token_ns=1_000, end_ns=90_000, steps=[[-4, -3], [1, 9]]),
        # Its first step is in the trace, then steps of others, then its last.
        request(6, 0, 0, first_token_ns=60_500, end_ns=81_000, steps=[[0, 0], [2, 2]]),
        request(7, 0, 0, first_token_ns=30_000, end_ns=40_000, steps=None),
    ]
    (folder / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with tracekit.open(folder, cache=False) as trace:
        found = lives(trace)
    assert found[5] == [
        ("not traced", None, 0, 60),
        ("decode", 1, 60, 71),
        ("decode", 2, 71, 81),
        ("not traced", None, 81, 90),
    ]
    assert found[6] == [
        ("queued", None, 0, 50),
        ("prefill", 0, 50, 60),
        ("between steps", None, 60, 71),
        ("decode", 2, 71, 81),
    ]
    assert found[7] == [("waiting", None, 0, 30), ("answering", None, 30, 40)]


def test_lives_of_a_real_run_fill_the_time_of_its_requests(opened: Opened) -> None:
    trace = opened(REPO / "sample_traces" / "serve_transformers")
    rows = trace.query("request_life", limit=0).to_dicts()
    asked = {row["request_id"]: row for row in trace.query("request_steps", limit=0).to_dicts()}
    assert asked
    for number, row in asked.items():
        own = [one for one in rows if one["request_id"] == number]
        by_part = {part: sum(r["dur_ns"] for r in own if r["part"] == part) for part in PARTS}
        # The step that makes the last token may end a little after the client has it.
        late_ns = sum(one["end_ns"] for one in own[-1:]) - own[0]["start_ns"] - row["e2e_ns"]
        assert sum(one["dur_ns"] for one in own) == row["e2e_ns"] + max(late_ns, 0)
        assert late_ns < 1_000_000
        if row["traced_step_count"] == row["step_count"]:
            assert by_part["queued"] == row["queue_ns"]
            assert by_part["not traced"] == 0
        assert by_part["prefill"] == row["prefill_ns"]
        assert sum(one["step"] is not None for one in own) == row["traced_step_count"]


PARTS = ("queued", "prefill", "decode", "between steps", "not traced", "answering")
