"""tracekit's callbacks for trainers: the training is unchanged and recorded."""

import pytest
from _expected import assert_unharmed
from _loops import TOKENS, needs


@pytest.mark.parametrize(
    ("package", "program", "model"),
    [
        ("transformers", "transformers_trainer", "LlamaForCausalLM"),
        pytest.param(
            *("lightning", "lightning_trainer validation accumulating", "Decoder"),
            marks=pytest.mark.nightly("one trainer is in the gate"),
        ),
    ],
)
def test_a_training_is_recorded(package, program, model, loops):
    needs(package)
    result = loops.run(*program.split(), "callback", is_bare=True)
    assert_unharmed(result, program)
    run = result.run
    made = run.manifest
    assert made["outcome"] == "ok", made["reason"]
    assert run.traces == made["traces"] == ["rank0.json.gz"]
    assert made["model"]["model_class"] == model
    assert made["gradient_accumulation"] == 2
    steps = made["steps"]
    assert [steps[f"{part}_count"] for part in ("warmup", "measured", "profiled")] == [1, 4, 2]
    assert run.tokens_per_step() == pytest.approx(2 * TOKENS)
    assert run.steps() == {6: {6}, 7: {7}}
    phases = run.phases()
    assert (phases["forward"], phases["backward"], phases["optimizer"]) == (4, 4, 2)
    # Evaluations do not belong to steps; Lightning's runs before the trace ends.
    for begin, _ in run.spans("tk/phase/evaluation"):
        assert not any(first <= begin < last for first, last in run.spans("tk/step/"))
