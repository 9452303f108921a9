"""What the loop of a program costs that turns out to be none of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tracekit.collectors.loop import program_loop  # noqa: E402
from tracekit.collectors.loop.plan import LoopPlan  # noqa: E402


def test_the_model_of_a_tensor_that_has_none_is_looked_for_less_and_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    monkeypatch.setattr(program_loop, "owner_of", found.append)
    loop = program_loop._Loop(tmp_path, LoopPlan(), lambda *_: None)
    image = torch.zeros(4, requires_grad=True)
    for _ in range(100):
        loop.optimizer_stepped(image)
    assert len(found) == 6, "after 2, 4, 8, 16, 32 and 64 steps"


def test_two_steps_are_timed_in_the_shortest_loop() -> None:
    shortest = next(plan for count in range(20) if (plan := LoopPlan().fitted(count)))
    assert (shortest.warmup_count, shortest.measured_count, shortest.profiled_count) == (1, 2, 1)
