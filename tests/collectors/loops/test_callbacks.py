"""Our callbacks for the trainers of others: they train as without, and are recorded."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import pytest
from _program import TOKENS


@dataclass(frozen=True)
class Case:
    """A trainer with our callback, and what its run folder must say."""

    script: str
    words: tuple[str, ...]
    package: str
    model: str

    def begin(self, loops: Any) -> None:
        if importlib.util.find_spec(self.package):
            loops.begin(self.script, *self.words)
            loops.begin(self.script, *self.words, "callback")


CASES = {
    "transformers": Case("transformers_trainer", (), "transformers", "LlamaForCausalLM"),
    "lightning": Case("lightning_trainer", ("validation", "accumulating"), "lightning", "Decoder"),
}


@pytest.fixture
def recorded(case: Case, loops: Any, needs: Any) -> Any:
    needs(case.package)
    return loops.begin(case.script, *case.words, "callback").result()


each_trainer = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@each_trainer
def test_the_training_is_as_it_was(case: Case, recorded: Any, loops: Any) -> None:
    bare = loops.begin(case.script, *case.words).result()
    assert bare.exit_code == recorded.exit_code == 0, recorded.stderr
    assert "loss" in bare.stdout
    assert recorded.stdout == bare.stdout
    assert recorded.files == bare.files
    assert recorded.left == []


@each_trainer
def test_its_run_folder_is_right(case: Case, recorded: Any) -> None:
    run = recorded.run
    made = run.manifest
    assert made["outcome"] == "ok", made["reason"]
    assert run.traces == made["traces"] == ["rank0.json.gz"]
    assert made["model"]["model_class"] == case.model
    assert made["gradient_accumulation"] == 2
    assert made["steps"]["warmup_count"] == 1
    assert made["steps"]["measured_count"] == 4
    assert made["steps"]["profiled_count"] == 2
    assert run.tokens_per_step() == pytest.approx(2 * TOKENS)


@each_trainer
def test_its_steps_and_phases(case: Case, recorded: Any) -> None:
    run = recorded.run
    assert run.steps() == {6: {6}, 7: {7}}
    names = run.names()
    assert names["tk/phase/forward"] == names["tk/phase/backward"] == 2 * 2
    assert names["tk/phase/optimizer"] == 2
    # The validation that follows step 7 is none of its own; Lightning's lies before the trace ends.
    for event in run.events():
        if event["name"] == "tk/phase/evaluation":
            steps = [e for e in run.events() if e["name"].startswith("tk/step/")]
            assert all(not e["ts"] <= event["ts"] < e["ts"] + e["dur"] for e in steps)


@pytest.mark.parametrize(
    ("script", "package", "reason"),
    [
        ("transformers_trainer", "transformers", "rank 0: ArithmeticError: no more"),
        (
            "lightning_trainer",
            "lightning",
            "rank 0: ArithmeticError: no more, after it was recorded",
        ),
    ],
)
def test_a_training_that_fails(
    script: str, package: str, reason: str, loops: Any, needs: Any
) -> None:
    needs(package)
    result = loops.begin(script, "callback", "failing").result()
    assert result.exit_code == 1
    assert result.stderr.count("ArithmeticError: no more\n") >= 1
    assert result.left == []
    made = result.run.manifest
    assert (made["outcome"], made["reason"]) == ("failed", reason)
    assert result.run.traces == ["rank0.json.gz"]
