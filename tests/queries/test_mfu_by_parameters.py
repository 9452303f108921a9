"""Utilisation of a run whose step without the profiler is known; others are in tests/cases."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from traces_by_hand import span, work

import tracekit


def test_of_the_run_by_a_step_without_the_profiler(make_run: Callable[..., Path]) -> None:
    """The kernel of 100 µs fills the recorded step; a step below that is of another program."""
    model = {"name": "m", "parameter_count": 1000}
    folder = make_run("a", model=model, batch_size=2, sequence_length=50, precision="bf16")
    events = [
        span("user_annotation", "ProfilerStep#1", 0, 100),
        *work(5, 10, 110, 1, "sm80_xmma_gemm_bf16"),
    ]
    properties = [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]
    text = json.dumps({"deviceProperties": properties, "traceEvents": events})
    (folder / "rank0.json").write_text(text)
    found = []
    for plain_ns in (100_000, 200_000, 50_000):
        with tracekit.open(folder, cache=False) as trace:
            trace.assume_plain_step(plain_ns)
            (row,) = trace.query("mfu").to_dicts()
        found.append(row["run_mfu_pct"])
    assert found == [row["mfu_pct"], pytest.approx(row["mfu_pct"] / 2), None]
