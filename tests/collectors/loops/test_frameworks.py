"""Shapes of loops that frameworks have: recorded as they are, or with what is missing said."""

from __future__ import annotations

from typing import Any

import pytest
from _program import TOKENS, phases

import tracekit

LATE = "fewer optimizers stepped then"


def outside(run: Any, phase: str) -> int:
    """Return how many ranges of a phase begin in no step."""
    spans = [(e["ts"], e["ts"] + e["dur"]) for e in run.events() if "tk/step/" in e["name"]]
    found = [e["ts"] for e in run.events() if e["name"] == f"tk/phase/{phase}"]
    return sum(not any(begin <= ts < end for begin, end in spans) for ts in found)


def test_targets_that_each_iteration_asks_are_in_its_step(loops: Any) -> None:
    both = loops.both("targets")
    assert both.wrapped.stdout == both.bare.stdout
    run = both.wrapped.run
    assert phases(run) == {"forward": 6, "backward": 4, "optimizer": 4, "evaluation": 4}
    assert outside(run, "evaluation") == 0
    assert "in no step's time" not in both.wrapped.stderr


def test_a_root_has_the_mode_of_the_model_that_it_holds(loops: Any) -> None:
    both = loops.both("holding_loss")
    assert both.wrapped.stdout == both.bare.stdout
    run = both.wrapped.run
    assert phases(run) == {"forward": 2, "backward": 2, "optimizer": 2, "evaluation": 1}
    assert outside(run, "evaluation") == 1
    assert run.tokens_per_step() == pytest.approx(2 * TOKENS), "both of the pair"
    assert "without gradients in training mode" not in both.wrapped.stderr


@pytest.mark.parametrize("asked", ["part", "copy"])
def test_an_optimizer_that_begins_late_begins_no_loop(asked: str, loops: Any) -> None:
    both = loops.both("delayed_actor", asked)
    assert both.wrapped.stdout == both.bare.stdout
    made = both.wrapped.run.manifest
    assert made["outcome"] == "ok"
    assert not [note for note in made["notes"] if "loop" in note], made["notes"]
    assert [note for note in made["notes"] if LATE in note], made["notes"]
    # Two iterations, of which one trains the actor.
    assert phases(both.wrapped.run)["optimizer"] == 2 * 3


def test_the_last_step_ends_with_its_optimizer(loops: Any) -> None:
    both = loops.both("waits_at_end", "wait")
    assert both.wrapped.stdout == both.bare.stdout
    run = both.wrapped.run
    assert max(run.manifest["repeats"][0]["step_ns"]) < 1e9
    assert run.manifest["overhead"]["profiled_step_ns"] < 1e9
    with tracekit.open(run.path) as trace:
        steps = trace.query("steps").to_dicts()
    assert [row["step"] for row in steps if row["step"] is not None] == [6, 7]
    assert all(row["dur_ns"] < 1e9 for row in steps if row["step"] is not None), steps


def test_children_of_a_fork_end_after_a_profile(loops: Any) -> None:
    both = loops.both("waits_at_end", "fork")
    assert "child ended 768\n" in both.bare.stdout
    assert both.wrapped.stdout == both.bare.stdout
    assert both.wrapped.left == []


def test_loops_that_are_all_short_are_recorded_as_far_as_they_go(loops: Any) -> None:
    both = loops.both("loops_in_turn", "short folds")
    assert both.wrapped.stdout == both.bare.stdout
    made = both.wrapped.run.manifest
    assert made["outcome"] == "ok", made["reason"]
    assert made["steps"]["warmup_count"] == made["steps"]["profiled_count"] == 1
    note = "fewer steps are recorded, 2 timed and 1 profiled, as the loop before had 6"
    assert note in made["notes"]
    assert both.wrapped.run.steps() == {5: {5}}


@pytest.mark.parametrize("before", ["folds", "one fold"])
def test_a_longer_loop_after_short_ones_is_recorded_in_full(before: str, loops: Any) -> None:
    both = loops.both("loops_in_turn", f"{before} and more")
    assert both.wrapped.stdout == both.bare.stdout
    made = both.wrapped.run.manifest
    assert made["outcome"] == "ok"
    # Two timed before those that are profiled, and two after them.
    assert (made["steps"]["measured_count"], made["steps"]["profiled_count"]) == (4, 2)
    assert "fewer steps" not in " ".join(made["notes"])


def test_an_optimizer_that_is_none_of_torchs(loops: Any) -> None:
    both = loops.both("foreign")
    assert both.wrapped.stdout == both.bare.stdout
    assert "call `tracekit.step()`" in both.wrapped.stderr
    both = loops.both("foreign", "told")
    assert both.wrapped.stdout == both.bare.stdout
    run = both.wrapped.run
    assert run.steps() == {number: {number} for number in (6, 7)}
    assert phases(run) == {"forward": 2, "backward": 2}
    assert run.tokens_per_step() == pytest.approx(TOKENS)


def test_no_program_sees_our_modules_before_it_asks_for_one(loops: Any) -> None:
    both = loops.both("modules_seen", python="cold")
    assert both.bare.stdout.count("False") == 2 + 12
    assert "True True\n" in both.bare.stdout
    assert both.wrapped.stdout == both.bare.stdout, both.wrapped.stderr


def test_a_worker_that_idles_does_not_hold_the_rank(loops: Any) -> None:
    both = loops.both("idle_worker", python="cold")
    assert both.wrapped.lines == both.bare.lines
    made = both.wrapped.run.manifest
    assert made["outcome"] == "ok", made["reason"]
    (note,) = [note for note in made["notes"] if "process" in note]
    assert note.endswith(
        "is recorded as rank 0; another process of that rank trained, in no figure"
    )
