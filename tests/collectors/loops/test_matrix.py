"""Loops that nobody here wrote: recorded, they compute and print what they do without."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from _program import TOKENS, Program, assert_unharmed, phases

PHASES = {"forward", "backward", "optimizer"}


@dataclass(frozen=True, kw_only=True)
class Loop(Program):
    """A loop, and what its run folder must say.

    Attributes:
        tokens: what all ranks are trained on in one step, or None without token ids.
        model: class of the model.
        phases: which phases the recorded steps have.
        accumulation: micro-batches of a step.
        data_size: ranks that are given batches of their own.
        precision: the type in which it computes.
        is_known: whether anything but the data tells which ranks are given batches of their own.
    """

    is_in_shell: bool = True
    tokens: int | None = TOKENS
    model: str = "Decoder"
    phases: set[str] = field(default_factory=lambda: PHASES)
    accumulation: int = 1
    data_size: int = 1
    precision: str = "fp32"
    is_known: bool = True


LOOPS = {
    "plain": Loop(script="plain", python="cold"),
    "evaluation": Loop(script="evaluation", phases=PHASES | {"evaluation"}),
    "autocast": Loop(script="autocast", tokens=2 * TOKENS, accumulation=2, precision="bf16"),
    "distillation": Loop(script="distillation"),
    "gan": Loop(script="gan", tokens=None, model="Sequential"),
    "trainer": Loop(
        script="transformers_trainer",
        needs=("transformers", "accelerate"),
        tokens=2 * TOKENS,
        model="LlamaForCausalLM",
        phases=PHASES | {"evaluation"},
        accumulation=2,
    ),
    "sft": Loop(
        script="trl_sft", needs=("trl", "datasets"), model="LlamaForCausalLM", python="libraries"
    ),
    "agent": Loop(script="agent", tokens=None, model="Agent", accumulation=2),
    "lightning": Loop(
        script="lightning_trainer",
        words=("validation",),
        needs=("lightning",),
        phases=PHASES | {"evaluation"},
    ),
    "accelerate": Loop(
        script="accelerate_loop",
        needs=("accelerate",),
        tokens=2 * TOKENS,
        accumulation=2,
        precision="bf16",
    ),
    "ddp": Loop(script="ddp", ranks=2, is_in_shell=False, tokens=2 * TOKENS, data_size=2),
    "fsdp2": Loop(script="fsdp2", ranks=2, tokens=2 * TOKENS, data_size=2),
    "zero3 by hand": Loop(
        script="zero3_by_hand", ranks=2, tokens=2 * TOKENS, data_size=2, is_known=False
    ),
    "tensor parallel": Loop(script="tensor_parallel", ranks=2, data_size=1),
}


@pytest.fixture
def both(case: Program, loops: Any) -> Any:
    return case.both(loops)


each_loop = pytest.mark.parametrize("case", LOOPS.values(), ids=LOOPS)


@each_loop
def test_the_program_is_as_it_was(case: Loop, both: Any) -> None:
    assert_unharmed(both)
    assert len([line for line in both.bare.lines if "loss" in line]) == 12 * case.ranks


@each_loop
def test_the_run_folder_is_right(case: Loop, both: Any) -> None:
    run = both.wrapped.run
    assert run.traces == [f"rank{rank}.json.gz" for rank in range(case.ranks)], both.wrapped.stderr
    made = run.manifest
    assert made["outcome"] == "ok"
    assert made["traces"] == run.traces
    assert made["model"]["model_class"] == case.model
    assert made["precision"] == case.precision
    assert made["gradient_accumulation"] == case.accumulation
    assert made["parallel"]["world_size"] == case.ranks
    if case.is_known or not is_per_rank(run):
        assert made["parallel"]["data_size"] == case.data_size
        assert made["parallel"]["tensor_size"] == case.ranks // case.data_size
    assert str(run.path) in both.wrapped.stderr or "tracekit breakdown run" in both.wrapped.stderr
    tokens = case.tokens
    if tokens is not None and not case.is_known and is_per_rank(run):
        tokens //= case.ranks
    assert run.tokens_per_step() == (None if tokens is None else pytest.approx(tokens))


def is_per_rank(run: Any) -> bool:
    """Return whether a run folder says that its figures are those of one rank."""
    return any("per rank" in note for note in run.manifest["notes"])


@each_loop
def test_steps_and_phases(case: Loop, both: Any) -> None:
    run = both.wrapped.run
    for rank in range(case.ranks):
        steps = run.steps(rank)
        assert steps, "no step was recorded"
        assert steps == {number: {number} for number in steps}
        assert len(steps) == run.manifest["steps"]["profiled_count"] == 2
        found = phases(run, rank)
        # An evaluation may or may not lie in the recorded steps.
        assert found.keys() - {"data", "evaluation"} == case.phases - {"evaluation"}
        assert found["optimizer"] == 2 * (2 if case.script == "gan" else 1)
        assert found["backward"] == 2 * (2 if case.script == "gan" else case.accumulation)


def test_a_model_whose_parts_are_called_is_counted_as_a_whole(loops: Any) -> None:
    both = loops.both("agent")
    made = both.wrapped.run.manifest
    assert made["model"]["parameter_count"] == 8 * 4 + 4 + 8 + 1
    assert made["engine"] == "torch", "methods named backward and step make no engine"
    names = both.wrapped.run.names()
    assert {name for name in names if "module/forward" in name} == {
        "tk/module/forward/actor#Linear",
        "tk/module/forward/critic#Linear",
    }
    assert "gone [True, True]" in both.bare.stdout, "as the program is compared with itself"


def test_models_of_a_loop_without_an_optimizer_are_not_held(loops: Any) -> None:
    both = loops.both("by_hand")
    assert "held 0\n" in both.bare.stdout
    assert both.wrapped.stdout == both.bare.stdout
    assert "no training step was seen" in both.wrapped.stderr


def test_steps_of_a_critic_before_the_first_of_the_generator_do_not_count(loops: Any) -> None:
    both = loops.both("critics")
    assert both.wrapped.stdout == both.bare.stdout
    run = both.wrapped.run
    made = run.manifest
    assert "nothing before step 5 counts: fewer optimizers stepped then" in made["notes"]
    assert made["steps"]["measured_count"] == len(made["repeats"][0]["step_ns"]) == 4
    # Four steps of the critic, and one of the generator, which is the last of an iteration.
    names = run.names()
    assert names["tk/phase/optimizer"] == 2 * 5
    iterations = sorted(number for found in run.steps().values() for number in found)
    assert len(iterations) == 2, run.steps()
    assert iterations[1] == iterations[0] + 1


def test_a_teacher_has_its_own_tree(loops: Any) -> None:
    names = loops.both("distillation").wrapped.run.names()
    roots = {name: names[name] for name in names if name.endswith("#Decoder")}
    assert sorted(roots.values()) == [2, 2], roots
    assert {name.partition("/forward/")[0] for name in roots} == {"tk/module"}
    layers = [name for name in names if name.endswith("#Layer") and "/forward/" in name]
    assert len(layers) == 4, layers


def test_evaluation_is_a_phase_of_its_own(loops: Any) -> None:
    run = loops.both("evaluation").wrapped.run
    names = run.names()
    # After each third step three batches: after step 6 in the middle of the recorded steps.
    assert names["tk/phase/evaluation"] in (1, 3), names
    assert names["tk/phase/forward"] == 2
    assert names["own/6"] == names["own/7"] == 1
    inside = _inside(run.events(), "tk/phase/evaluation", "tk/module/forward/layers.0#Layer")
    assert inside == 3


@dataclass(frozen=True, kw_only=True)
class Calls(Program):
    """A program of 12 steps, and the phases of the two that are recorded, 6 and 7.

    `counts` are how often each phase is there, `note` a part of what the run says of it.
    """

    counts: dict[str, int]
    note: str = ""


CALLS = {
    "cached": Calls(
        script="rollouts",
        words=("cached",),
        counts={"forward": 4},
        note="training mode are in the steps'",
    ),
    "rollouts in training mode": Calls(
        script="rollouts", words=("train",), counts={"forward": 2, "generation": 16}
    ),
    "rollouts in evaluation mode": Calls(
        script="rollouts", words=("eval",), counts={"forward": 2, "generation": 16}
    ),
    "an average": Calls(
        script="averaged", counts={"forward": 2, "evaluation": 1}, note="no step's time"
    ),
    "a teacher": Calls(script="distillation", counts={"forward": 2, "evaluation": 2}),
    "a model and optimizer before": Calls(
        script="loops_in_turn", words=("finder",), counts={"forward": 2}, note="ended after 5 steps"
    ),
    "an optimizer before": Calls(
        script="loops_in_turn",
        words=("same",),
        counts={"forward": 2},
        note="loop 2 of this process is recorded",
    ),
    "folds": Calls(
        script="loops_in_turn",
        words=("folds",),
        counts={"forward": 2},
        note="loop 4 of this process",
    ),
}


@pytest.mark.parametrize("case", CALLS.values(), ids=CALLS)
def test_what_calls_and_loops_are(case: Calls, loops: Any) -> None:
    both = case.both(loops)
    assert_unharmed(both)
    run = both.wrapped.run
    made = run.manifest
    assert made["outcome"] == "ok"
    assert made["steps"]["measured_count"] == 4
    assert run.tokens_per_step() == pytest.approx(TOKENS)
    found = phases(run)
    assert found == {"backward": 2, "optimizer": 2, **case.counts}
    assert [number for step in run.steps().values() for number in step] == [6, 7]
    assert case.note in both.wrapped.stderr
    assert ("no step's time" in both.wrapped.stderr) == (case.note == "no step's time")
    assert (
        made["model"]["parameter_count"]
        == loops.both("plain", python="cold").wrapped.run.manifest["model"]["parameter_count"]
    )
    outside = found.get("evaluation", 0) + found.get("generation", 0)
    in_step = sum(
        _inside(run.events(), f"tk/step/{step}", f"tk/phase/{phase}")
        for step in run.steps()
        for phase in ("evaluation", "generation")
    )
    assert in_step == (0 if case.script == "averaged" else outside)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_longer_loop_takes_the_place_of_a_trial(ranks: int, loops: Any) -> None:
    both = loops.both("loops_in_turn", "trial", ranks=ranks, is_in_shell=True)
    assert_unharmed(both)
    run = both.wrapped.run
    made = run.manifest
    assert made["outcome"] == "ok"
    assert [rank["rank"] for rank in made["ranks"]] == list(range(ranks))
    note = "loop 2 of this process is recorded: the one before it, of another model or optimizer"
    assert f"{note}, ended after 9 steps" in made["notes"]
    recorded = [run.steps(rank) for rank in range(ranks)]
    assert recorded[0] == recorded[-1]
    assert all(found == {number} for number, found in recorded[0].items())
    assert min(recorded[0]) > 9
    plain = loops.both("plain", python="cold").wrapped.run.manifest
    assert made["model"]["parameter_count"] == plain["model"]["parameter_count"]
    # Without a launcher nobody knows how many ranks there are, before the program has ended.
    said = "of a longer loop, in place of the one before" in both.wrapped.stderr
    assert said == (ranks == 1)


def test_of_even_loops_the_first_is_recorded(loops: Any) -> None:
    both = loops.both("loops_in_turn", "even")
    assert both.wrapped.stdout == both.bare.stdout
    note = "a loop that came later, of 12 steps: in no figure"
    assert note in both.wrapped.run.manifest["notes"]
    assert f"note: {note}" in both.wrapped.stderr


def test_loops_that_are_all_too_short(loops: Any) -> None:
    both = loops.both("loops_in_turn", "short")
    assert both.wrapped.stdout == both.bare.stdout
    made = both.wrapped.run.manifest
    assert made["outcome"] == "failed"
    assert "the longest of 2 loops ended after 6 steps, but 8 are needed" in made["reason"]
    assert len(made["repeats"][0]["step_ns"]) == 2


def test_a_step_begins_with_the_optimizer_that_calls_the_model(loops: Any, needs: Any) -> None:
    """Lightning gives each optimizer a closure, which holds forward and backward."""
    needs("lightning")
    events = loops.both("lightning_trainer", "validation").wrapped.run.events()
    for inner in ("forward", "backward"):
        assert _inside(events, "tk/phase/optimizer", f"tk/phase/{inner}") == 2


def test_surroundings_of_the_program(loops: Any) -> None:
    both = loops.both("surroundings", "one", "two words", stdin="a line\n", python="cold")
    assert both.bare.exit_code == both.wrapped.exit_code == 0, both.wrapped.stderr
    assert "stdin a line\n" in both.bare.stdout

    def comparable(text: str) -> list[str]:
        # Folders of their own: home, temporary files, the token of the run.
        changing = ("variable HOME ", "variable TMPDIR ", "variable TORCHINDUCTOR_CACHE_DIR ")
        return [line for line in text.splitlines() if not line.startswith(changing)]

    here = str(both.bare.folder)
    there = str(both.wrapped.folder)
    assert comparable(both.wrapped.stdout.replace(there, here)) == comparable(both.bare.stdout)


def _inside(events: list[dict[str, Any]], outer: str, inner: str) -> int:
    spans = [(e["ts"], e["ts"] + e["dur"], e["tid"]) for e in events if e["name"] == outer]
    return sum(
        any(start <= e["ts"] < end and tid == e["tid"] for start, end, tid in spans)
        for e in events
        if e["name"] == inner
    )
