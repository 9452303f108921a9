"""Loops on threads of the program's own: torch's profiler crashes when two of them use it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from tracekit.collectors.loop import program_loop
from tracekit.collectors.loop.plan import LoopPlan
from tracekit.collectors.loop.rank_lock import RankClaim
from tracekit.collectors.loop.watch import LoopWatch
from tracekit.collectors.profiler.loop_profilers import LoopProfilers

# The recorded steps are 6 and 7. Kind of program: steps in its trace, what the run folder says.
KINDS = {
    "two": ([6, 7], ""),
    "first": ([6, 7], ""),
    "short": ([6], "the thread of the loop ended"),
    "moving": (None, "the thread of the loop ended"),
    "daemon": (None, "the thread of the loop runs on"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_on_a_thread(kind: str, loops: Any) -> None:
    both = loops.both("threads", kind)
    assert both.bare.exit_code == both.wrapped.exit_code == 0, both.wrapped.stderr
    assert both.wrapped.stdout == both.bare.stdout
    run = both.wrapped.run
    steps, note = KINDS[kind]
    assert run.traces == (["rank0.json.gz"] if steps else [])
    if steps:
        assert list(run.steps()) == steps
        # What another thread trains is no part of the steps.
        assert run.names()["tk/phase/optimizer"] == len(steps)
        assert run.manifest["outcome"] == "ok"
    assert any(note in text for text in ["", *run.manifest["notes"]])


class Beginning:
    """A loop of this process that is watched by hand, and whose claim is held up.

    Args:
        meanwhile: called while the claim is written.
    """

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]
    ) -> None:
        self.loop = program_loop._Loop(folder, LoopPlan(), lambda _, why: pytest.fail(why))
        self.loop._watch = self.watch = LoopWatch(self.loop)
        self.loop._profilers = LoopProfilers()
        self.claim_count = 0

        def take(claim: RankClaim) -> bool:
            del claim
            self.claim_count += 1
            if self.claim_count == 1:
                meanwhile()
            # The second one would find a claim that is being written.
            return self.claim_count == 1

        monkeypatch.setattr(RankClaim, "take", take)
        monkeypatch.setattr(program_loop, "at_exit", lambda _: None)

    def step(self) -> None:
        model = nn.Linear(2, 2)
        self.loop.training_call_begins(model, (), {})
        self.loop.optimizer_stepped(next(model.parameters()))

    @property
    def is_recorded(self) -> bool:
        return self.loop.recorder is not None and not self.loop.recorder.is_done


def on_a_thread(call: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def test_of_two_threads_that_step_at_once_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Beginning(tmp_path, monkeypatch, lambda: on_a_thread(begun.step))
    begun.step()
    assert begun.claim_count == 1
    assert begun.is_recorded


def test_while_one_thread_begins_the_steps_of_others_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else their optimizers would take part in its steps, and it would wait for them."""
    seen: list[bool] = []

    def look() -> None:
        seen.append(on_a_thread(lambda: begun.watch.thread.is_elsewhere))

    begun = Beginning(tmp_path, monkeypatch, look)
    begun.step()
    assert seen == [True]
    assert not begun.watch.thread.is_elsewhere


def test_where_autograd_steps_an_optimizer_on_its_own_thread_that_is_not_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, with an optimizer in a hook."""
    begun = Beginning(tmp_path, monkeypatch, lambda: None)
    monkeypatch.setattr(program_loop, "is_backward", lambda: True)
    on_a_thread(begun.step)
    assert begun.is_recorded
    assert not begun.watch.thread.is_elsewhere


LIBRARY = """
import threading, torch, tracekit
from torch import nn

model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def one():
    with step():
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()

def several(count):
    for _ in range(count):
        one()

with tracekit.collect(model=model, out="run", warmup=1, steps=2, profile_steps=2) as step:
    thread = threading.Thread(target=several, args=(7,))
    thread.start()
    thread.join()
    one()
print("done")
"""


def test_the_library_around_steps_on_a_thread_that_ends(loops: Any) -> None:
    python = loops.program("plain")[0]
    result = loops.start([python, "-c", LIBRARY]).end()
    assert (result.exit_code, result.stdout) == (0, "done\n"), result.stderr
    assert list(result.run.steps()) == [6]
    assert "the thread of the loop ended" in str(result.run.manifest["notes"])
