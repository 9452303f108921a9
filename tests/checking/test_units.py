"""Sides of a relative rule are divided by the same: steps where both mark them, else windows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
SERVED = SAMPLES / "serve_vllm"
STEPPED = SAMPLES / "pretrain_Naive"


@pytest.mark.nightly("reads two complete runs")
def test_sides_that_do_not_both_mark_steps(tracekit_in_process: Callable[..., Any]) -> None:
    """What a request takes needs no steps, and times are then those of windows on both sides."""
    rules = ["--rule", "p50(ttft) <= 10 s", "--rule", "step_time <= +900%"]
    done = tracekit_in_process("check", SERVED, "--against", STEPPED, *rules, "--format", "json")
    first, second = json.loads(done.stdout)
    assert (done.exit_code, first["outcome"]) == (7, "passed")
    window = tracekit_in_process("query", "timeline", STEPPED, "--format", "json")
    widths = [row["window_ns"] for row in json.loads(window.stdout)]
    assert second["base_value"] == pytest.approx(sum(widths) / len(widths))


def test_a_baseline_of_another_unit_is_refused(tracekit_in_process: Callable[..., Any]) -> None:
    assert tracekit_in_process("baseline", "save", "main", STEPPED).exit_code == 0
    rule = ("--rule", "step_time <= +3%", "--per", "window")
    done = tracekit_in_process("check", STEPPED, "--against", "main", *rule)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "baseline main is per step, and not per window" in done.stderr


def test_several_runs_have_no_figure_of_one(tracekit_in_process: Callable[..., Any]) -> None:
    rules = ["--rule", "step_time <= 1 s", "--rule", "peak_memory <= 1 TB"]
    done = tracekit_in_process("check", SAMPLES, *rules, "--format", "json")
    time, memory = json.loads(done.stdout)
    assert (done.exit_code, time["outcome"], memory["outcome"]) == (7, *["inconclusive"] * 2)
    assert "holds 6 runs" in time["reason"]
    assert "does not tell peak_memory" in memory["reason"]
