"""Requests in the steps of real runs; small ones are in tests/cases/requests_in_steps.case."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tracekit
from tracekit.ingest import json_lines

Opened = Callable[[Path], tracekit.Trace]
REPO = Path(__file__).resolve().parents[2]
PARTS = ("queued", "prefill", "decode", "between steps", "not traced", "answering")


def test_of_half_a_file_of_requests_none_is_kept(
    make_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a part of its own, so that two are in the store when the third is too many."""
    monkeypatch.setattr(json_lines, "MAX_LINES", 2)
    monkeypatch.setattr(json_lines, "PART_BYTES", 1)
    load = [{"request_id": number, "outcome": "ok", "steps": [[0, 2]]} for number in range(3)]
    with tracekit.open(make_run("serve", load, stage="serve"), cache=False) as trace:
        held = trace.sql(
            "SELECT (SELECT count(*) FROM request), (SELECT count(*) FROM request_step)"
        )
        ((count, notes),) = trace.sql("SELECT request_count, notes FROM run").rows
    assert held.rows == [(0, 0)]
    assert count == 0
    assert "requests.jsonl cannot be read: more than 2 lines" in notes


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
