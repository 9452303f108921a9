"""Loops on threads of the program's own: torch's profiler crashes when two of them use it."""

from __future__ import annotations

from typing import Any

import pytest

# The recorded steps are 6 and 7. Kind of program: steps in its trace, what the run folder says.
KINDS = {
    "two": ([6, 7], ""),
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
