"""The loop behind the trainer callbacks: an error in tracekit never reaches the trainer."""

from unittest.mock import Mock

import pytest

from tracekit import manifest
from tracekit.errors import UsageError

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tracekit.collectors.callbacks import called_loop  # noqa: E402
from tracekit.collectors.callbacks.called_loop import CalledLoop  # noqa: E402
from tracekit.collectors.calls import module_calls  # noqa: E402

OPTIONS = {"warmup": 1, "steps": 1, "profile_steps": 1}
NEEDED = 1 + 1 + 1 + 1 + 1


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert module_calls._listeners == ()


def train(loop, count, called, given):
    optimizer = torch.optim.SGD(given.parameters(), lr=0.1)
    loop.begin(given)
    for _ in range(count):
        loop.begin_step()
        called(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        loop.end_step()


@pytest.mark.parametrize(
    ("count", "outcome"), [(NEEDED, "ok"), (NEEDED - 2, "failed"), (0, "failed")]
)
def test_a_training(count, outcome, tmp_path):
    """The called module is the model, as with DDP, whose wrapper the trainer calls."""
    inner = nn.Linear(4, 4)
    loop = CalledLoop({**OPTIONS, "out": tmp_path / "run"})
    train(loop, count, nn.Sequential(inner), inner)
    loop.end()
    run = manifest.read(tmp_path / "run")
    assert run.outcome == outcome, run.reason
    if outcome == "ok":
        assert [rank.step_count for rank in run.ranks] == [count]
        assert run.model.model_class == "Sequential"


def test_the_next_training_ends_an_abandoned_one(tmp_path):
    model = nn.Linear(4, 4)
    loop = CalledLoop({**OPTIONS, "out": tmp_path / "run"})
    train(loop, 3, model, model)
    loop.begin(model)
    assert manifest.read(tmp_path / "run").outcome == "failed"
    loop.end()


def test_options_are_checked_at_once():
    with pytest.raises(UsageError, match="steps is 0"):
        CalledLoop({"steps": 0})
    with pytest.raises(TypeError, match="colour"):
        CalledLoop({"colour": "red"})


def test_an_existing_name(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("kept")
    model = nn.Linear(4, 4)
    loop = CalledLoop({**OPTIONS, "out": tmp_path / "run"})
    train(loop, NEEDED, model, model)
    loop.end()
    assert [path.name for path in tmp_path.rglob("*")] == ["run", "mine.txt"]
    assert str(tmp_path / "run") in capsys.readouterr().err


def test_an_error_in_tracekit_is_reported_once(tmp_path, capsys, monkeypatch):
    model = nn.Linear(4, 4)
    loop = CalledLoop({**OPTIONS, "out": tmp_path / "run"})
    monkeypatch.setattr(called_loop, "collect", Mock(side_effect=OSError("no disk")))
    train(loop, NEEDED, model, model)
    loop.end()
    assert capsys.readouterr().err.count("no disk") == 1
