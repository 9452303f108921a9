"""Steps of a public trace, and means over steps; what belongs to a step is in tests/cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from traces_by_hand import span, work

import tracekit

Opened = Callable[[Path], tracekit.Trace]


def test_steps_of_2021_are_ops(opened: Opened, public_traces: Path) -> None:
    steps = opened(public_traces / "kineto_v100_resnet_2021.json.gz").query("steps")
    assert [step for step in steps.column("step") if step is not None] == [5, 6, 7, 8, 9, 10]


def test_means_are_over_steps_with_work(tiny_trace: Callable[..., Path]) -> None:
    dropped = [
        span("user_annotation", "ProfilerStep#1", 0, 900),
        *work(100, 150, 450, 1)[:1],
        span("user_annotation", "ProfilerStep#2", 1000, 1900),
        *work(1100, 1150, 1450, 2),
    ]
    with tracekit.open(tiny_trace(dropped), cache=False) as trace:
        (phase,) = trace.query("phase_steps").to_dicts()
        (totals,) = trace.query("step_totals").to_dicts()
    assert phase["step_compute_kernel_ns"] == 300_000
    assert totals["step_count"] == 1
