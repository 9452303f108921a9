"""How much of a step is idle, in one sentence: measured, estimated, or not known."""

from __future__ import annotations

from typing import Any

import pytest
from given_rows import rows_of

from tracekit.render.sections.device_time import idle_sentence

RECORDED = {"recorded_step_ns": 100, "work_ns": 70, "recorded_idle_pct": 30.0}
ESTIMATE = {
    "recorded_step_ns": 98,
    "work_ns": 70,
    "unprofiled_step_ns": 76,
    "recorded_idle_pct": 28.6,
    "idle_pct": 7.9,
    "idle_low_pct": 1.0,
    "idle_high_pct": 21.0,
}
OF_THE_RUN = "Idle 30.0 % of a recorded step, about 7.9 % (1.0 to 21.0) without the profiler"
MEASURED = "Idle 30.0 % of a recorded step, 12.5 % without the profiler"
WIDE = "Idle 30.0 % of a recorded step, 1.0 to 21.0 % without the profiler"
HINT = "Idle 30.0 % of a recorded step, in part the profiler's: query unprofiled"


@pytest.mark.parametrize(
    ("recorded", "estimates", "expected"),
    [
        (RECORDED | {"idle_pct": 12.5, "plain_step_ns": 80}, [ESTIMATE], MEASURED),
        (RECORDED, [ESTIMATE, {"work_ns": 90, "reason": "no host"}], OF_THE_RUN),
        (RECORDED, [{"work_ns": 90, "reason": "no host"}], HINT),
        (RECORDED, [ESTIMATE | {"idle_pct": None, "reason": "too wide"}], WIDE),
        (RECORDED, [], HINT),
        (RECORDED | {"recorded_idle_pct": 3.0}, [], None),
        (None, [], None),
    ],
)
def test_the_sentence(
    recorded: dict[str, Any] | None, estimates: list[dict[str, Any]], expected: str | None
) -> None:
    idle = rows_of("run_idle", *([recorded] if recorded else []))
    data = {"run_idle": idle, "unprofiled": rows_of("unprofiled", *estimates)}
    assert idle_sentence(data) == expected
