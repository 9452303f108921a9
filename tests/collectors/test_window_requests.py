"""A file asks for a window of profiled steps: once, though it is seen before it is written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from tracekit.collectors.loop import windows
from tracekit.collectors.loop.plan import LoopPlan
from tracekit.collectors.process.distributed import Place


@dataclass
class Loop:
    """A loop that is asked for windows by a file, and a clock that stands still."""

    request: Path
    asked: windows.Windows
    now_s: float = 0.0
    step: int = 8

    def begins(self) -> int | None:
        """Begin a step; return how many are kept if a window begins."""
        self.step += 1
        return self.asked.begin_if_due(self.step)

    def end_window(self) -> None:
        while not self.asked.step_ended():
            pass
        self.asked.wait(self.step)


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loop:
    request = tmp_path / "ask"
    plan = LoopPlan(request=str(request), profiled_count=2)
    made = Loop(request, windows.Windows(plan, Place(0, 0, 1)))
    monkeypatch.setattr(windows, "time", SimpleNamespace(monotonic=lambda: made.now_s))
    made.asked.wait(made.step)
    return made


def test_a_file_that_is_written_after_it_was_seen_asks_once(loop: Loop) -> None:
    assert loop.begins() is None
    loop.request.touch()
    os.utime(loop.request, ns=(1, 1))
    assert loop.begins() is None, "its number may come yet"
    loop.now_s = 0.1
    loop.request.write_text("3")
    os.utime(loop.request, ns=(2, 2))
    assert loop.begins() == 3
    loop.end_window()
    loop.now_s = 9.0
    assert loop.begins() is None


def test_an_empty_file_asks_for_the_usual_window(loop: Loop) -> None:
    loop.request.touch()
    assert loop.begins() is None
    loop.now_s = 0.2
    assert loop.begins() is None
    loop.now_s = 0.3
    assert loop.begins() == 2
    loop.end_window()
    assert loop.begins() is None
    # Written once more, it asks once more.
    loop.request.write_text("")
    os.utime(loop.request, ns=(5, 5))
    assert loop.begins() is None
    loop.now_s = 0.6
    assert loop.begins() == 2
