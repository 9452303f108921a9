"""What becomes of a load when the embedded engine fails, hangs, is too large or is interrupted."""

from __future__ import annotations

import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from _embedded_load import ignore, plan_of, records_of

from tracekit.collectors.serving.embedded.steps import Batch
from tracekit.collectors.serving.engines import transformers as engine_module
from tracekit.collectors.serving.plan import LoadProgress
from tracekit.errors import UsageError
from tracekit.units import NS_PER_S

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tracekit.collectors.serving.embedded.step_profile import StepProfile  # noqa: E402


@pytest.mark.parametrize(
    ("error", "is_out_of_memory"),
    [
        (RuntimeError("the device fell off the bus"), False),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
    ],
)
def test_an_error_in_the_engine_ends_the_load(
    engine: engine_module.TransformersEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: RuntimeError,
    is_out_of_memory: bool,
) -> None:
    forward = engine._model.forward
    calls = iter(range(100))

    def broken(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == 17:
            raise error
        return forward(*args, **kwargs)

    monkeypatch.setattr(engine._model, "forward", broken)
    result = engine.run(plan_of(), tmp_path, ignore)
    assert result.failure == f"the engine failed in step 18: {type(error).__name__}: {error}"
    assert result.is_out_of_memory is is_out_of_memory
    assert not result.interrupted
    outcomes = {record.outcome for record in records_of(result)}
    assert outcomes <= {"ok", "bad_response", "cancelled"}
    assert "bad_response" in outcomes
    assert (result.traces, list(tmp_path.iterdir())) == ([], [])


def test_an_error_while_profiling_leaves_the_figures(
    engine: engine_module.TransformersEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_chosen = StepProfile.batch_chosen
    steps = iter(range(100))

    def broken(self: StepProfile, batch: Batch) -> None:
        if next(steps) == 3:
            raise RuntimeError("the device fell off the bus")
        batch_chosen(self, batch)

    monkeypatch.setattr(StepProfile, "batch_chosen", broken)
    result = engine.run(plan_of(4), tmp_path, ignore)
    records = records_of(result)
    assert [record.outcome for record in records] == ["ok"] * 4
    assert (result.traces, list(tmp_path.iterdir())) == ([], [])
    assert not torch.autograd._profiler_enabled()
    assert not engine._model._forward_hooks
    assert result.profile_note is not None
    assert re.fullmatch(
        r"no profile: the engine failed in step \d+: RuntimeError: the device fell off the bus",
        result.profile_note,
    )


def test_an_interrupt_keeps_what_has_come(
    engine: engine_module.TransformersEngine, tmp_path: Path
) -> None:
    def interrupt(progress: LoadProgress) -> None:
        if progress.stage == "load" and progress.finished_count >= 2:
            raise KeyboardInterrupt

    result = engine.run(plan_of(20, concurrency=2), tmp_path, interrupt)
    assert result.interrupted
    records = records_of(result)
    outcomes = Counter(record.outcome for record in records)
    assert outcomes["ok"] >= 2
    assert outcomes.total() == outcomes["ok"] + outcomes["cancelled"] == 20
    reasons = {record.reason for record in records if record.outcome == "cancelled"}
    assert "the load was stopped before it was sent" in reasons
    assert all(0 <= record.arrival_ns <= result.wall_ns for record in records)


def test_a_hanging_engine_is_given_up(
    engine: engine_module.TransformersEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = threading.Event()
    forward = engine._model.forward

    def hanging(*args: Any, **kwargs: Any) -> Any:
        let_go.wait(20)
        return forward(*args, **kwargs)

    monkeypatch.setattr(engine._model, "forward", hanging)
    monkeypatch.setattr(
        "tracekit.collectors.serving.embedded.continuous_batching._STOP_TIMEOUT_S", 0.2
    )
    result = engine.run(plan_of(2, timeout_ns=NS_PER_S // 2), tmp_path, ignore)
    let_go.set()
    assert result.failure == "the engine has made no step for 0.5 s, with 1 requests under way"
    assert all(record.outcome == "cancelled" for record in result.records)


def test_a_cache_that_holds_no_request_is_refused(tmp_path: Path) -> None:
    made = engine_module.create({"model": "tiny", "cache_blocks": 2, "page_size": 8})
    made.start(tmp_path, ignore)
    with pytest.raises(UsageError) as caught:
        made.run(plan_of(), tmp_path, ignore)
    made.close()
    assert caught.value.message == (
        "a cache of 2 pages of 8 tokens does not hold one request of 50 tokens"
    )


def test_a_cache_larger_than_memory_is_out_of_memory(tmp_path: Path) -> None:
    """It is larger than what a process can address: some allocators promise all below that."""
    made = engine_module.create({"model": "tiny", "cache_blocks": 10**14})
    made.start(tmp_path, ignore)
    result = made.run(plan_of(3), tmp_path, ignore)
    made.close()
    assert result.is_out_of_memory
    assert result.failure is not None
    assert result.failure.startswith("the cache of keys and values does not fit: ")
    assert [record.reason for record in result.records] == ["the engine did not come up"] * 4
