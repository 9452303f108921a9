"""A loop that is recorded is the program's: its record holds nothing of it."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tracekit.collectors.loop.plan import LoopPlan  # noqa: E402
from tracekit.collectors.loop.recorder import LoopRecorder  # noqa: E402
from tracekit.collectors.loop.watch import LoopWatch, Observer  # noqa: E402
from tracekit.collectors.process.distributed import Place  # noqa: E402
from tracekit.collectors.profiler.loop_profilers import LoopProfilers  # noqa: E402


def test_a_model_can_go_while_another_window_may_come(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 4)
    recorder = LoopRecorder(
        LoopPlan(request=str(tmp_path / "request")),
        Place(0, 0, 1),
        tmp_path,
        [model],
        LoopWatch(Observer()),
        LoopProfilers(),
        lambda: None,
    )
    recorder.begin_step()
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    recorder.end_step()
    recorder.abandon()
    assert recorder.report.model["parameter_count"] == 20
