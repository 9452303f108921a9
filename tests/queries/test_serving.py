"""Steps and kinds of work of real engines; small traces are in tests/cases/serving.case."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import tracekit

Opened = Callable[[Path], tracekit.Trace]


def test_steps_of_public_engines(opened: Opened, public_traces: Path) -> None:
    trace = opened(public_traces / "cpu_llama_serving_cb.json.gz")
    rows = trace.query("serving_steps").to_dicts()
    assert [row["phase"] for row in rows[:3]] == ["prefill", "mixed", "decode"]
    (found,) = trace.query("serving_window").to_dicts()
    assert (found["step_count"], found["max_running_count"]) == (15, 6)
    for name, counts in {
        "tl_mi300_sglang_prefill": (15, 15_360, 0, 0),
        "tl_mi300_sglang_decode_graph": (0, 0, 32, 32),
        "tl_mi300_vllm_piecewise": (9, 8_155, 37, 37),
        "tl_b200_vllm_eager": (1, 888, 0, 0),
    }.items():
        rows = opened(public_traces / f"{name}.json.gz").query("serving_steps").to_dicts()
        step = next(row for row in rows if row["step"] is not None)
        assert tuple(step.values())[4:8] == counts, name


def test_every_nanosecond_of_real_engines_is_in_one_row(
    opened: Opened, public_traces: Path
) -> None:
    for name in ("tl_b200_vllm_eager", "tl_mi300_sglang_decode_graph", "cpu_llama_serving_cb"):
        trace = opened(public_traces / f"{name}.json.gz")
        (timeline,) = trace.query("timeline").to_dicts()
        rows = trace.query("serving_modules").to_dicts()
        assert sum(row["wall_ns"] for row in rows) == timeline["window_ns"]
        idle = sum(row["wall_ns"] for row in rows if row["task"] == "idle")
        assert idle == timeline["idle_ns"]
