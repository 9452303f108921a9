"""Numbers that the manual states in its sentences, worked out once more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tracekit

REPO = Path(__file__).resolve().parents[2]
DOCS = REPO / "docs"
Opened = Callable[[Path], tracekit.Trace]


def text_of(page: str) -> str:
    """Return a page in one line, so that a sentence is found however it is broken."""
    return " ".join((DOCS / page).read_text("utf-8").split())


def only_row(trace: tracekit.Trace, analysis: str) -> dict[str, Any]:
    (row,) = trace.query(analysis).to_dicts()
    return row


def test_the_trace_that_is_worked_out_by_hand(opened: Opened) -> None:
    trace = opened(DOCS / "samples" / "made_up_step.json")
    row = only_row(trace, "timeline")
    shares = ("window_ns", "compute_ns", "exposed_comm_ns", "exposed_memcpy_ns", "idle_ns")
    assert [row[name] for name in shares] == [370_000, 220_000, 30_000, 12_000, 108_000]
    assert only_row(trace, "trace")["event_count"] == 39
    causes = {row["cause"]: row["idle_ns"] for row in trace.query("idle_causes").to_dicts()}
    assert causes == {
        "host_sync": 41_000,
        "host_bound": 37_000,
        "launch_latency": 28_000,
        "comm_wait": 2_000,
    }
    own = {
        (row["phase"], row["module_path"]): row["self_wall_ns"]
        for row in trace.query("modules").to_dicts()
        if row["self_wall_ns"]
    }
    assert own == {
        ("data", "(data loading)"): 10_000,
        ("forward", "MLP_0/Linear_0"): 80_000,
        ("forward", "MLP_0/GELU_0"): 20_000,
        ("backward", "MLP_0/Linear_0"): 80_000,
        ("backward", "MLP_0/GELU_0"): 20_000,
        ("backward", "(communication)"): 30_000,
        ("optimizer", "(optimizer)"): 22_000,
    }


def test_the_finding_of_the_tutorial(opened: Opened) -> None:
    trace = opened(REPO / "sample_traces" / "pretrain_R+Z3")
    text = text_of("tutorial.md")
    ranks = {row["rank"]: row for row in trace.query("rank_summary").to_dicts()}
    waited, moved = ranks[1]["comm_wait_ns"], ranks[1]["transfer_ns"]
    assert (round((waited + moved) / 1e6), round(moved / 1e6), round(waited / 1e6)) == (
        745,
        215,
        530,
    )
    assert round(100 * waited / (waited + moved)) == 71
    assert "took 745 ms: in 215 ms of them the bytes moved, and for 530 ms, 71 %" in text
    counted = trace.sql(
        "SELECT count(*), count(*) FILTER (dur_ns > 1000000), sum(dur_ns)::BIGINT, "
        "(sum(dur_ns) FILTER (dur_ns > 1000000))::BIGINT FROM device_events "
        "JOIN trace USING (trace_id) WHERE rank = 0 AND class IN ('layout', 'softmax')"
    ).rows
    ((events, long_ones, sum_ns, long_ns),) = counted
    assert (events, long_ones, round(sum_ns / 1e6), round(long_ns / 1e6)) == (18_312, 28, 409, 355)
    assert "28 of 18,312 operations are longer than a millisecond on rank 0" in text
    assert "they hold 355 ms of its 409 ms" in text


def test_the_reasons_are_those_of_the_rules(opened: Opened) -> None:
    trace = opened(DOCS / "samples" / "made_up_step.json")
    said = trace.sql("FROM attribution_reasons()").rows
    text = (DOCS / "definitions.md").read_text("utf-8")
    table = text[text.index("| reason | says |") :].split("\n\n")[0].splitlines()[2:]
    assert table == [f"| `{reason}` | {meaning} |" for reason, meaning in said]
