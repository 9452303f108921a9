"""Training loops under `tracekit collect` compute and print the same, and are recorded."""

import json
from collections import Counter
from dataclasses import dataclass, field

import pytest
from _expected import assert_unharmed, is_same
from _loops import OPTIONS, TOKENS, needs

import tracekit

ONE_EACH = {"forward": 2, "backward": 2, "optimizer": 2}
ACCUMULATED = {"forward": 4, "backward": 4, "optimizer": 2}
ADVERSARIAL = {"backward": 4, "optimizer": 4}
PARAMETERS = 29_504  # of the decoder
LATE = "fewer optimizers stepped then"
GATE = (
    *("plain", "evaluation", "accumulation", "GAN", "DDP", "FSDP2", "compiled in place"),
    "Trainer",
)


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A loop program with its arguments, and what its run folder must contain.

    `tokens` are trained by all ranks in one step. `phases` has the ranges of each checked phase in
    the two recorded steps; it is empty if the calls inside a step cannot be seen. Without `steps`,
    only that each recorded step holds its own mark is checked. `note` is a part of a note.
    """

    program: str
    ranks: int = 1
    is_torchrun: bool = False
    needs: tuple[str, ...] = ()
    tokens: int | None = TOKENS
    model: str = "Decoder"
    parameters: int | None = None
    phases: dict[str, int] = field(default_factory=lambda: ONE_EACH)
    accumulation: int | None = 1
    data_size: int = 1
    precision: str = "fp32"
    steps: tuple[int, ...] | None = (6, 7)
    note: str = ""

    def run(self, loops):
        needs(*self.needs)
        how = {"is_torchrun": True} if self.is_torchrun else {}
        return loops.run(*self.program.split(), ranks=self.ranks, **how)

    @property
    def section(self):
        ranks = f"{self.ranks} ranks{', torchrun' * self.is_torchrun}"
        return f"{self.program} ({ranks})" if self.ranks > 1 else self.program


def calls(kind, note="", tokens=TOKENS, **phases):
    """Return a loop that calls its model outside the step, too."""
    return Loop(
        program=f"calls {kind}",
        tokens=tokens,
        model="Loss" if kind == "holding" else "Decoder",
        phases=ONE_EACH | phases,
        parameters=PARAMETERS,
        note=note,
    )


def in_turn(kind, note):
    return Loop(program=f"loops_in_turn {kind}", parameters=PARAMETERS, note=note)


def compiled(program, tokens=TOKENS, **members):
    """Return a compiled loop, whose expected output includes the counters of Dynamo."""
    members = {"phases": {"optimizer": 2}} | members
    return Loop(program=program, tokens=tokens, steps=None, **members)


TRAINER = {"needs": ("transformers", "accelerate"), "model": "LlamaForCausalLM", "accumulation": 2}


LOOPS = {
    "plain": Loop(program="plain", parameters=PARAMETERS),
    "evaluation": Loop(program="evaluation"),
    "accumulation": Loop(
        program="autocast", tokens=2 * TOKENS, phases=ACCUMULATED, accumulation=2, precision="bf16"
    ),
    "distillation": Loop(
        program="distillation", phases={**ONE_EACH, "evaluation": 2}, parameters=PARAMETERS
    ),
    "GAN": Loop(program="gan", tokens=None, model="Sequential", phases=ADVERSARIAL),
    "TD3": Loop(
        program="two_models targets",
        tokens=None,
        model="Sequential",
        phases={**ADVERSARIAL, "forward": 6, "evaluation": 4},
    ),
    "Trainer": Loop(
        program="transformers_trainer", tokens=2 * TOKENS, phases=ACCUMULATED, **TRAINER
    ),
    "SFT": Loop(program="trl_sft", needs=("trl", "datasets"), model="LlamaForCausalLM"),
    "agent": Loop(
        program="agent",
        tokens=None,
        model="Agent",
        parameters=45,
        phases={"backward": 4, "optimizer": 2},
        accumulation=2,
    ),
    "Lightning": Loop(program="lightning_trainer validation", needs=("lightning",)),
    "Accelerate": Loop(
        program="accelerate_loop",
        needs=("accelerate",),
        tokens=2 * TOKENS,
        phases=ACCUMULATED,
        accumulation=2,
        precision="bf16",
    ),
    "foreign optimizer": Loop(program="foreign reported", phases={"forward": 2, "backward": 2}),
    "DDP": Loop(program="ddp", ranks=2, is_torchrun=True, tokens=2 * TOKENS, data_size=2),
    "FSDP2": Loop(program="fsdp2", ranks=2, tokens=2 * TOKENS, data_size=2),
    "tensor parallel": Loop(program="tensor_parallel", ranks=2),
    "cached": calls("cached", "training mode count as step time", forward=4),
    "generates in training mode": calls("train", generation=16),
    "generates in evaluation mode": calls("eval", generation=16),
    "averaged model": calls("average", "outside the step time", evaluation=1),
    "loss that holds the model": calls("holding", tokens=2 * TOKENS, evaluation=1),
    "another model before": in_turn("finder", "ended after 5 steps"),
    "another optimizer before": in_turn("same", "loop 2 of this process is recorded"),
    "folds": in_turn("folds", "loop 4 of this process"),
    "compiled in place": compiled("compiled place eager"),
    "compiled layers": compiled("compiled layers eager"),
    "compiled layers with their own call": compiled("compiled calling eager"),
    # The inside of the compiled function is not visible.
    "compiled step": compiled(
        "compiled step eager", None, model="Sequential", phases={}, accumulation=None
    ),
    "inductor": compiled("compiled model inductor", model="Sequential"),
    "compiled DDP": compiled("ddp compiled eager", 64, ranks=2, data_size=2),
    "compiled Trainer": compiled("transformers_trainer compiled eager", 64, **TRAINER),
}

nightly = pytest.mark.nightly("a variant of the loops that run in the gate")


@pytest.mark.parametrize(
    "name", [name if name in GATE else pytest.param(name, marks=nightly) for name in LOOPS]
)
def test_a_loop_is_recorded(name, loops):
    case = LOOPS[name]
    result = case.run(loops)
    assert_unharmed(result, case.section)
    run = result.run
    made = run.manifest
    assert run.traces == made["traces"] == [f"rank{rank}.json.gz" for rank in range(case.ranks)]
    assert (made["outcome"], made["precision"]) == ("ok", case.precision)
    assert made["model"]["model_class"] == case.model
    assert case.parameters in (None, made["model"]["parameter_count"])
    assert made["gradient_accumulation"] == case.accumulation
    parallel = made["parallel"]
    assert (parallel["world_size"], parallel["data_size"]) == (case.ranks, case.data_size)
    assert parallel["tensor_size"] == case.ranks // case.data_size
    assert made["steps"]["profiled_count"] == 2
    if case.phases:
        assert made["steps"]["measured_count"] == 4
    assert run.tokens_per_step() == (None if case.tokens is None else pytest.approx(case.tokens))
    for rank in range(case.ranks):
        steps = run.steps(rank)
        assert len(steps) == 2
        if case.steps:
            assert steps == {number: {number} for number in case.steps}
        assert all(own <= {number} for number, own in steps.items()), steps
        phases = run.phases(rank)
        assert {phase: phases[phase] for phase in case.phases} == case.phases
    assert case.note in "\n".join(made["notes"])


def test_evaluation_is_a_separate_phase(loops):
    run = loops.run("evaluation").run
    # Three batches follow step 6, one of the recorded steps.
    assert run.phases()["evaluation"] in (1, 3)
    assert run.inside("tk/phase/evaluation", "tk/module/forward/layers.0#Layer") == 3


@nightly
def test_calls_outside_the_step_have_no_step_time(loops):
    """An averaged model is evaluated between steps; a teacher runs inside them."""
    for kind, inside in (("average", 0), ("holding", 0), ("eval", 16)):
        run = loops.run("calls", kind).run
        counts = [
            run.inside(f"tk/step/{step}", f"tk/phase/{phase}")
            for step in (6, 7)
            for phase in ("evaluation", "generation")
        ]
        assert sum(counts) == inside
    names = loops.run("distillation").run.names()
    roots = {name: count for name, count in names.items() if name.endswith("#Decoder")}
    assert sorted(roots.values()) == [2, 2], "teacher and student have separate trees"
    assert len([name for name in names if name.endswith("#Layer") and "/forward/" in name]) == 4


@nightly
def test_parts_of_an_agent_are_called(loops):
    run = loops.run("agent").run
    assert run.manifest["engine"] == "torch", "methods named backward and step make no engine"
    assert {name for name in run.names() if "module/forward" in name} == {
        "tk/module/forward/actor#Linear",
        "tk/module/forward/critic#Linear",
    }


@nightly
def test_the_optimizer_of_lightning_calls_the_model(loops):
    needs("lightning")
    run = loops.run("lightning_trainer", "validation").run
    assert run.inside("tk/phase/optimizer", "tk/phase/forward") == 2
    assert run.inside("tk/phase/optimizer", "tk/phase/backward") == 2


@nightly
def test_parameters_that_are_sharded_by_hand(loops):
    """Only the data shows whether ranks receive different batches."""
    result = loops.run("zero3_by_hand", ranks=2)
    assert_unharmed(result, "zero3_by_hand (2 ranks)")
    made = result.run.manifest
    is_per_rank = any("per rank" in note for note in made["notes"])
    assert result.run.tokens_per_step() == pytest.approx(TOKENS * (1 if is_per_rank else 2))


@nightly
def test_models_without_an_optimizer_are_freed(loops):
    result = loops.run("by_hand")
    assert_unharmed(result, "by_hand")
    assert not result.run.path.exists()


@nightly
def test_steps_of_a_critic_before_the_first_of_the_generator_do_not_count(loops):
    result = loops.run("two_models", "critics")
    assert_unharmed(result, "two_models critics")
    made = result.run.manifest
    assert [note for note in made["notes"] if LATE in note]
    assert made["steps"]["measured_count"] == len(made["repeats"][0]["step_ns"]) == 4
    # One iteration has four steps of the critic and, last, one of the generator.
    assert result.run.phases()["optimizer"] == 2 * 5
    first, second = sorted(number for own in result.run.steps().values() for number in own)
    assert second == first + 1


@nightly
@pytest.mark.parametrize("kind", ["part", "copy"])
def test_an_optimizer_that_starts_late_starts_no_new_loop(kind, loops):
    result = loops.run("two_models", kind)
    assert_unharmed(result, f"two_models {kind}")
    made = result.run.manifest
    assert made["outcome"] == "ok"
    assert not [note for note in made["notes"] if "loop" in note], made["notes"]
    assert [note for note in made["notes"] if LATE in note], made["notes"]
    # Two iterations; one of them trains the actor.
    assert result.run.phases()["optimizer"] == 2 * 3


@nightly
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_longer_loop_replaces_a_trial(ranks, loops):
    result = loops.run("loops_in_turn", "trial", ranks=ranks)
    assert_unharmed(result, "loops_in_turn trial" + " (2 ranks)" * (ranks == 2))
    made = result.run.manifest
    assert made["outcome"] == "ok"
    assert [rank["rank"] for rank in made["ranks"]] == list(range(ranks))
    assert [note for note in made["notes"] if "loop 2" in note and "after 9 steps" in note]
    recorded = [result.run.steps(rank) for rank in range(ranks)]
    assert recorded[0] == recorded[-1] == {number: {number} for number in recorded[0]}
    assert min(recorded[0]) > 9
    assert made["model"]["parameter_count"] == PARAMETERS


@nightly
@pytest.mark.parametrize(
    ("kind", "outcome", "counts", "note"),
    [
        ("even", "ok", (4, 2), "a later loop with 12 steps"),
        # The earlier loops had 6 steps, so fewer are recorded of the last one.
        ("short folds", "ok", (2, 1), "fewer steps are recorded"),
        ("folds and more", "ok", (4, 2), ""),
        ("one fold and more", "ok", (4, 2), ""),
        ("short", "failed", (2, 0), ""),
    ],
)
def test_short_and_long_loops_in_turn(kind, outcome, counts, note, loops):
    result = loops.run("loops_in_turn", kind)
    made = result.run.manifest
    assert (result.exit_code, result.left) == (0, [])
    assert made["outcome"] == outcome
    assert len(made["repeats"][0]["step_ns"]) == counts[0]
    if outcome == "ok":
        steps = made["steps"]
        assert (steps["measured_count"], steps["profiled_count"]) == counts
        assert len(result.run.steps()) == counts[1]
    assert note in "\n".join(made["notes"])
    assert ("fewer steps" in "\n".join(made["notes"])) == (kind == "short folds")


@nightly
def test_an_optimizer_unknown_to_torch_needs_tracekit_step(loops):
    result = loops.run("foreign")
    assert_unharmed(result, "foreign reported")
    assert "tracekit.step()" in result.stderr


@nightly
def test_the_last_step_ends_with_its_optimizer(loops):
    result = loops.run("waits_at_end", "wait")
    assert (result.exit_code, result.left) == (0, [])
    made = result.run.manifest
    assert max(made["repeats"][0]["step_ns"]) < 1e9
    assert made["overhead"]["profiled_step_ns"] < 1e9
    with tracekit.open(result.run.path) as trace:
        rows = [row for row in trace.query("steps").to_dicts() if row["step"] is not None]
    assert [row["step"] for row in rows] == [6, 7]
    assert all(row["dur_ns"] < 1e9 for row in rows), rows


@nightly
@pytest.mark.parametrize("program", ["waits_at_end fork", "modules_seen"])
def test_children_of_a_fork_end_and_no_program_sees_tracekit(program, loops):
    assert_unharmed(loops.run(*program.split()), program)


@nightly
def test_an_idle_worker_does_not_keep_the_rank(loops):
    result = loops.run("idle_worker")
    assert_unharmed(result, "idle_worker")
    made = result.run.manifest
    assert made["outcome"] == "ok", made["reason"]
    assert [note for note in made["notes"] if "another process of that rank" in note]


@nightly
def test_a_program_inherits_the_same_environment(loops):
    bare, wrapped = (
        loops.run("surroundings", "one", "two words", stdin="a line\n", is_bare=is_bare)
        for is_bare in (True, False)
    )
    assert bare.exit_code == wrapped.exit_code == 0, wrapped.stderr
    assert "stdin a line\n" in bare.stdout
    changing = ("variable HOME ", "variable TMPDIR ", "variable LOOP_TOKEN ")
    here, there = (
        [line for line in text.splitlines() if not line.startswith(changing)]
        for text in (wrapped.stdout.replace(str(wrapped.folder), str(bare.folder)), bare.stdout)
    )
    assert here == there


@nightly
@pytest.mark.parametrize("words", [(), ("evaluation",)], ids=["plain", "evaluation"])
def test_a_pipeline_stage_waits_inside_the_step_it_waits_for(words, loops):
    result = loops.run("pipeline", *words, ranks=2)
    assert_unharmed(result, "pipeline (2 ranks)")
    run = result.run
    # The trace of the last stage ends before the first stage writes its own.
    assert run.steps(0) == run.steps(1) == {6: {6}, 7: {7}}
    for rank in range(2):
        steps = run.spans("tk/step/", rank)
        if words and rank:
            # The first range of step 7 is the time before the evaluation.
            assert [end - begin > 1_000_000 for begin, end in steps] == [False, True, False]
            del steps[1]
        for phase in ("forward", "backward", "optimizer"):
            spans = run.spans(f"tk/phase/{phase}", rank)
            assert len(spans) == (2 if phase == "optimizer" else 4)
            for begin, end in spans:
                assert any(first <= begin and end <= last for first, last in steps)
    assert run.manifest["gradient_accumulation"] == 2
    # The first timed step follows an evaluation.
    assert run.manifest["ranks"][1]["wall_ns"] < 1_000_000_000


def ops(path):
    events = json.loads(path.read_bytes())["traceEvents"]
    kept = ("aten::", "own/", "ProfilerStep#", "Optimizer.")
    return Counter(e["name"] for e in events if e.get("ph") == "X" and e["name"].startswith(kept))


# Lightning profiles steps 1 to 4, so tracekit is asked for early steps.
AT_ONCE = ("--warmup", "1", "--steps", "1", "--profile-steps", "1")


@nightly
@pytest.mark.parametrize(
    ("program", "options"),
    [
        ("own_profiler scheduled", OPTIONS),
        ("own_profiler 7 9", OPTIONS),
        ("own_profiler 2 4", OPTIONS),
        ("own_profiler 0 11", OPTIONS),
        ("lightning_trainer profiler", AT_ONCE),
    ],
)
def test_a_loop_with_its_own_profiler(program, options, loops):
    """Never two profilers at once; the loop's own trace stays complete."""
    if "lightning" in program:
        needs("lightning")
    bare = loops.run(*program.split(), is_bare=True)
    result = loops.run(*program.split(), options=options)
    assert (result.exit_code, result.stdout) == (0, bare.stdout)
    assert (result.files, result.left) == (bare.files, [])
    own, wanted = (ops(next(one.folder.glob("*trace.json"))) for one in (result, bare))
    assert wanted["aten::linear"]
    assert own == wanted
    made = result.run.manifest
    assert made["outcome"] == "ok"
    assert any("profiler" in note for note in made["notes"]), made["notes"]
    assert made["traces"] == result.run.traces
    if result.run.traces:
        steps = result.run.steps()
        assert all(own <= {number} for number, own in steps.items()), steps
    assert made["repeats"] or made["overhead"]["profiled_step_ns"], "its steps are timed"
    assert bool(made["repeats"]) != (program == "own_profiler 0 11"), "profiled steps count apart"


@nightly
@pytest.mark.parametrize(
    ("words", "section"), [((), "plain"), (("eager",), "compiled place eager")]
)
def test_the_library_around_a_loop(words, section, loops):
    result = loops.run("library", *words, is_bare=True)
    assert_unharmed(result, section)
    assert result.run.manifest["outcome"] == "ok"
    assert result.run.tokens_per_step() == pytest.approx(TOKENS)
    assert result.run.phases()["optimizer"] == 2
    if not words:
        assert result.run.steps() == {6: {6}, 7: {7}}


def test_health_reports_compiled_regions(loops):
    with tracekit.open(loops.run("compiled", "place", "eager").run.path, cache=False) as trace:
        rows = {row["metric"]: row for row in trace.health().to_dicts()}
    region = rows["compiled_region_device_time"]
    assert region["value"] > 0
    assert region["severity"] == "note"


def test_floating_point_output_is_compared_with_tolerance():
    assert is_same("losses from step 0: 4.2001 0.5", "losses from step 0: 4.2 0.5")
    assert not is_same("losses from step 0: 4.3", "losses from step 0: 4.2")
    assert not is_same("losses from step 1: 4.2", "losses from step 0: 4.2")
    assert not is_same("step 3", "step 3 4.2")
