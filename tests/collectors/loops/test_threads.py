"""Loops on threads of the program: torch's profiler crashes if two threads use it."""

import pytest
from _expected import assert_unharmed
from processes import on_a_thread
from torch import nn

from tracekit.collectors.loop import program_loop
from tracekit.collectors.loop.plan import LoopPlan
from tracekit.collectors.loop.rank_lock import RankClaim
from tracekit.collectors.loop.watch import LoopWatch
from tracekit.collectors.profiler.loop_profilers import LoopProfilers

nightly = pytest.mark.nightly("threads are covered in process by the tests of `Beginning`")


@nightly
@pytest.mark.parametrize(
    ("kind", "steps", "note"),
    [
        ("two", [6, 7], ""),
        ("first", [6, 7], ""),
        ("short", [6], "the loop's thread ended"),
        ("moving", [], "the loop's thread ended"),
        ("daemon", [], "the loop's thread was still running"),
    ],
)
def test_a_loop_on_a_thread(kind, steps, note, loops):
    result = loops.run("threads", kind)
    assert_unharmed(result, f"threads {'short' if kind == 'daemon' else kind}")
    run = result.run
    assert run.traces == (["rank0.json.gz"] if steps else [])
    if steps:
        assert list(run.steps()) == steps
        # Other threads train outside the steps.
        assert run.phases()["optimizer"] == len(steps)
        assert run.manifest["outcome"] == "ok"
    assert note in "\n".join(run.manifest["notes"])


class Beginning:
    """A loop of this process that calls a function (`meanwhile`) while it claims its rank."""

    def __init__(self, folder, monkeypatch, meanwhile):
        self.loop = program_loop._Loop(folder, LoopPlan(), lambda _, why: pytest.fail(why))
        self.loop._watch = self.watch = LoopWatch(self.loop)
        self.loop._profilers = LoopProfilers()
        self.claim_count = 0

        def take(claim):
            del claim
            self.claim_count += 1
            if self.claim_count == 1:
                meanwhile()
            # A second process would see a claim that is being written.
            return self.claim_count == 1

        monkeypatch.setattr(RankClaim, "take", take)
        monkeypatch.setattr(program_loop, "at_exit", lambda _: None)

    def step(self):
        model = nn.Linear(2, 2)
        self.loop.training_call_begins(model, (), {})
        self.loop.optimizer_stepped(next(model.parameters()))

    @property
    def is_recorded(self):
        return self.loop.recorder is not None and not self.loop.recorder.is_done


def test_of_two_threads_that_step_at_once_one_is_recorded(tmp_path, monkeypatch):
    begun = Beginning(tmp_path, monkeypatch, lambda: on_a_thread(begun.step))
    begun.step()
    assert begun.claim_count == 1
    assert begun.is_recorded


def test_steps_of_other_threads_are_ignored_while_one_begins(tmp_path, monkeypatch):
    """Else their optimizers would take part in its steps, and it would wait for them."""
    seen = []

    def look():
        seen.append(on_a_thread(lambda: begun.watch.thread.is_elsewhere))

    begun = Beginning(tmp_path, monkeypatch, look)
    begun.step()
    assert seen == [True]
    assert not begun.watch.thread.is_elsewhere


def test_an_optimizer_that_autograd_steps_on_its_own_thread_starts_no_loop(tmp_path, monkeypatch):
    """As on a GPU, with an optimizer in a hook."""
    begun = Beginning(tmp_path, monkeypatch, lambda: None)
    monkeypatch.setattr(program_loop, "is_backward", lambda: True)
    on_a_thread(begun.step)
    assert begun.is_recorded
    assert not begun.watch.thread.is_elsewhere
