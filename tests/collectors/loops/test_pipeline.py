"""The later stages of a pipeline wait for the first, and what that does between steps."""

from __future__ import annotations

from typing import Any

import pytest


def ranges(run: Any, rank: int, prefix: str) -> list[tuple[float, float]]:
    return [
        (event["ts"], event["ts"] + event["dur"])
        for event in run.events(rank)
        if event["name"].startswith(prefix)
    ]


@pytest.mark.parametrize("words", [(), ("evaluation",)], ids=["plain", "evaluation"])
def test_a_later_stage_waits_in_the_step_that_it_waits_for(words: Any, loops: Any) -> None:
    both = loops.both("pipeline", *words, ranks=2, is_in_shell=True)
    bare, wrapped = both.bare, both.wrapped
    assert bare.exit_code == 0, bare.stderr
    assert wrapped.exit_code == 0, wrapped.stderr
    assert wrapped.lines == bare.lines
    run = wrapped.run
    # The trace of the last stage ends before the first one writes its own: it does not wait for it.
    assert run.steps(0) == run.steps(1) == {6: {6}, 7: {7}}
    for rank in range(2):
        steps = ranges(run, rank, "tk/step/")
        if words and rank:
            # Of step 7 the first range is of the time before the evaluation.
            assert [mark[1] - mark[0] > 200_000 for mark in steps] == [False, True, False]
            del steps[1]
        for phase in ("forward", "backward", "optimizer"):
            found = ranges(run, rank, f"tk/phase/{phase}")
            assert len(found) == (2 if phase == "optimizer" else 4)
            for begin, end in found:
                assert any(first <= begin and end <= last for first, last in steps)
    assert run.manifest["gradient_accumulation"] == 2
    # The first timed step comes after an evaluation.
    assert run.manifest["ranks"][1]["wall_ns"] < 200_000_000
