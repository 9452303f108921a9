"""The sections of a run: what it was, and how its requests fared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from given_rows import rows_of

from tracekit.analysis.result import Result
from tracekit.render.sections import SECTIONS

MS = 1_000_000
Totalled = Callable[[Mapping[str, Result]], dict[str, Result]]


def result(name: str, *rows: dict[str, Any]) -> dict[str, Result]:
    return {name: rows_of(name, *rows)}


def texts(section: str, data: dict[str, Result], width: int = 100, full: bool = False) -> list[str]:
    lines = [line.plain for line in SECTIONS[section].lines(data, width, full=full)]
    assert all(len(line) <= width for line in lines)
    return lines


def test_a_run_that_ended_badly_says_why() -> None:
    row = {"run": "r", "stage": "finetune", "outcome": "oom", "reason": "CUDA\x1b out of memory"}
    found = texts("run", result("run", {**row, "engine": "ddp", "notes": ["one", "two\n"]}))
    assert found == ["finetune  ddp", "oom: CUDA\\x1b out of memory", "note: one", "note: two\\n"]
    row = {"run": "r", "outcome": "unreadable", "reason": "no JSON"}
    assert texts("run", result("run", row)) == ["r  run.json is of no use: no JSON"]


def test_all_notes_are_shown_whole() -> None:
    notes = [f"note {n} " + "changes how to read the figures " * 4 for n in range(5)]
    found = texts("run", result("run", {"run": "r", "outcome": "ok", "notes": notes}), 60)
    assert all(len(line) <= 60 for line in found)
    assert " ".join(" ".join(found).split()).endswith(
        " ".join(" ".join(f"note: {note}" for note in notes).split())
    )


def latencies() -> dict[str, Result]:
    percentiles = {"p50_ns": 60 * MS, "p90_ns": 100 * MS, "p99_ns": 100 * MS, "max_ns": 100 * MS}
    e2e = {"metric": "e2e", "value_count": 4, "mean_ns": 67.75 * MS, **percentiles}
    none = {"metric": "ttft", "value_count": 0}
    waited = {"metric": "client_wait", "value_count": 4, "mean_ns": 0.0, "max_ns": 0}
    return result("latency", e2e, none, waited)


def test_latency_shows_what_there_is() -> None:
    assert texts("latency", latencies()) == [
        "Latency  percentiles are nearest-rank, of the requests that succeeded",
        "         mean     p50      p90      p99         max",
        "  e2e  67.750  60.000  100.000  100.000  100.000 ms  to the end of the answer",
    ]
    assert texts("latency", latencies(), width=40)[1:] == [
        "          p50      p90         p99",
        "  e2e  60.000  100.000  100.000 ms",
    ]
    assert len(texts("latency", latencies(), full=True)) > 4


def test_the_distribution_is_drawn() -> None:
    points = [
        {"run": "s", "engine": "vllm", "metric": metric, "value_ns": ms * MS, "cumulative_pct": pct}
        for metric in ("e2e", "ttft")
        for ms, pct in ((10, 50.0), (100, 100.0))
    ]
    data = result("latency_cdf", *points)
    found = texts("latency_cdf", data)
    assert found[0] == "Latency e2e  share of the requests that were answered within"
    assert len(found) == 14
    assert sum(line.startswith("Latency") for line in texts("latency_cdf", data, full=True)) == 2


def test_a_query_draws_it_too(rendered: Callable[..., str], make_result: Any) -> None:
    point = {"run": "s", "engine": "vllm", "metric": "e2e", "value_ns": MS, "cumulative_pct": 100.0}
    (table,) = result("latency_cdf", point).values()
    lines = rendered(table, "table").splitlines()
    assert lines[0].startswith("Latency e2e")
    assert lines[-1].split()[:3] == ["s", "vllm", "e2e"]
    assert "┤" not in rendered(table, "csv")
    empty = rendered(result("latency_cdf")["latency_cdf"], "table")
    assert empty.splitlines()[-1] == "no rows"


def test_a_window_without_steps_has_no_line() -> None:
    """The other ranks have one."""
    row = {"rank": 0, "device": "cpu", "first_step": 3, "last_step": 9, "dur_ns": 70 * MS}
    row |= {f"{kind}_step_count": 2 for kind in ("prefill", "mixed", "decode")}
    row |= {"max_running_count": 6, "decode_tokens_per_s": 400.0, "idle_pct": 12.5}
    none = {"rank": 1, "device": "cpu", "reason": "no steps"}
    shown = texts("serving_window", result("serving_window", row))
    assert len(shown) == 1
    assert texts("serving_window", result("serving_window", row, none)) == shown
    assert texts("serving_window", result("serving_window", none)) == []


def test_requests_of_which_none_succeeded() -> None:
    row = {"request_count": 3, "ok_count": 0}
    assert texts("throughput", result("throughput", row)) == ["Throughput  0 of 3 requests ok"]


def test_what_the_phases_of_serving_were_spent_on(totalled: Totalled) -> None:
    rows = [
        {"phase": phase, "task_group": group, "task": task, "wall_ns": ms * MS}
        for phase, group, task, ms in [
            ("prefill", "computation", "GEMM", 6),
            ("prefill", "rest", "idle", 2),
            ("decode", "computation", "other", 1),
            ("decode", "communication", "other", 3),
            ("decode", "computation", "RoPE", 0),
            ("other", "rest", "idle", 0),
        ]
    ]
    # A second device adds to the first.
    data = totalled(result("serving_modules", *rows, *rows[:2]))
    assert texts("serving_modules", data) == [
        "Serving  share of each phase's time, idle included",
        "  prefill  16.000 ms  GEMM 75.0 % · idle 25.0 %",
        "  decode    4.000 ms  other communication 75.0 % · other computation 25.0 %",
    ]


@pytest.mark.parametrize(
    "name", ["latency", "latency_cdf", "run", "serving_modules", "serving_window", "throughput"]
)
def test_nothing_of_a_plain_trace(name: str) -> None:
    section = SECTIONS[name]
    assert section.lines({}, 100, full=False) == []
    assert section.lines(result(name), 100, full=True) == []
