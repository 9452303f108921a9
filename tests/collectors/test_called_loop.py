"""The loop of a trainer that calls back: whatever happens, the trainer does not fail for us."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tracekit import manifest
from tracekit.errors import UsageError

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tracekit.collectors.callbacks.called_loop import CalledLoop  # noqa: E402
from tracekit.collectors.calls import module_calls  # noqa: E402

OPTIONS = {"warmup": 1, "steps": 1, "profile_steps": 1}
NEEDED = 1 + 1 + 1 + 1 + 1


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert module_calls._listeners == ()


def train(loop: CalledLoop, count: int, called: nn.Module, given: nn.Module) -> None:
    optimizer = torch.optim.SGD(given.parameters(), lr=0.1)
    loop.begin(given)
    for _ in range(count):
        loop.begin_step()
        called(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        loop.end_step()


def outcome(folder: Path) -> tuple[str, str | None]:
    run = manifest.read(folder)
    return run.outcome, run.reason


def test_what_is_called_is_the_model(tmp_path: Path) -> None:
    """As with DDP, whose wrapping of the model the trainer calls."""
    inner = nn.Linear(4, 4)
    wrapping = nn.Sequential(inner)
    loop = CalledLoop({**OPTIONS, "out": tmp_path / "run"})
    train(loop, NEEDED, wrapping, inner)
    loop.end()
    run = manifest.read(tmp_path / "run")
    assert run.outcome == "ok", run.reason
    assert run.model is not None
    assert run.model.model_class == "Sequential"
    assert [rank.step_count for rank in run.ranks] == [NEEDED]


def test_a_training_that_is_too_short(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    loop = CalledLoop({**OPTIONS, "out": tmp_path / "run"})
    train(loop, NEEDED - 2, model, model)
    loop.end()
    said, reason = outcome(tmp_path / "run")
    assert said == "failed"
    assert f"ended after {NEEDED - 2} steps, but {NEEDED} are needed" in str(reason)


def test_a_training_without_a_step(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    loop = CalledLoop({**OPTIONS, "out": tmp_path / "run"})
    train(loop, 0, model, model)
    loop.end()
    assert outcome(tmp_path / "run")[0] == "failed"


def test_the_next_training_ends_one_that_was_left(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    loop = CalledLoop({**OPTIONS, "out": tmp_path / "run"})
    train(loop, 3, model, model)
    loop.begin(model)
    said, reason = outcome(tmp_path / "run")
    assert said == "failed"
    assert "ended without a word" in str(reason)
    loop.end()


def test_options_are_checked_at_once() -> None:
    with pytest.raises(UsageError, match="steps is 0"):
        CalledLoop({"steps": 0})
    with pytest.raises(TypeError, match="colour"):
        CalledLoop({"colour": "red"})


def test_a_name_that_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("kept")
    model = nn.Linear(4, 4)
    loop = CalledLoop({**OPTIONS, "out": tmp_path / "run"})
    train(loop, NEEDED, model, model)
    loop.end()
    assert [path.name for path in tmp_path.rglob("*")] == ["run", "mine.txt"]
    assert "the loop is not recorded" in capsys.readouterr().err


def test_an_error_of_ours_stays_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no disk")

    model = nn.Linear(4, 4)
    loop = CalledLoop({**OPTIONS, "out": tmp_path / "run"})
    monkeypatch.setattr("tracekit.collectors.callbacks.called_loop.collect", fail)
    train(loop, NEEDED, model, model)
    loop.end()
    assert capsys.readouterr().err.count("no disk") == 1
