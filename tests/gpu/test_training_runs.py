"""Training runs of the paper's: Llama2-7B at full width, random weights, as many layers as fit."""

import math

import pytest
from devices import each
from test_methods import packages_of
from trace_claims import claim_training

pytestmark = pytest.mark.alone

# Stage, methods, batch size; in the order of their worth. With offloading four layers suffice.
_RUNS = (
    *(("pretrain", "Naive", 2), ("pretrain", "R", 32), ("finetune", "L", 1), ("finetune", "QL", 1)),
    *(("pretrain", "F", 2), ("pretrain", "Naive", 1), ("finetune", "L+F+R", 1)),
    *(("finetune", "QL+F+R", 1), ("finetune", "PT", 1), ("finetune", "LFA", 1)),
    *(("pretrain", "R+Z2", 32), ("pretrain", "R+Z3", 32), ("pretrain", "Z2", 1)),
    *(("pretrain", "Z2+O", 1), ("finetune", "L+F", 1), ("finetune", "L+R", 1)),
    *(("finetune", "QL+F", 1), ("finetune", "PT+F+R", 1), ("finetune", "LFA+F+R", 1)),
    *(("pretrain", "Z3+O", 1), ("pretrain", "R+F", 1), ("pretrain", "Q", 1)),
)
RUNS = {f"{stage} {opt} batch {size}": (stage, opt, size) for stage, opt, size in _RUNS}
_LAYERS = 32
_STEPS = {"warmup": 2, "steps": 5, "repeats": 3, "profile_steps": 2}
_TRIAL = {"model": "tiny", "batch_size": 1, "seq_len": 32, "layers": 1}
_TRIAL |= {"warmup": 1, "steps": 2, "repeats": 1, "profile_steps": 1}


@each("name", RUNS, on_cpu=["pretrain R batch 32"])
def test_a_run_of_the_paper(name, trial):
    """It ends well with as many quarters of the layers as fit; its trace satisfies all claims."""
    stage, opt, batch_size = RUNS[name]
    wanted = {"stage": stage, "opt": opt, "batch_size": batch_size}
    trial.needs(*packages_of(wanted))
    if trial.is_cuda:
        wanted |= {"model": "llama2-7b", **_STEPS}
        layers = 4 if "O" in opt else _LAYERS
    else:
        wanted, layers = wanted | _TRIAL, 1
    folder = f"training/{name.replace(' ', '_')}"
    for count in (layers, *(max(1, layers * quarters // 4) for quarters in (3, 2, 1))):
        cut = None if count == _LAYERS else count
        run = trial.collect(folder, **{**wanted, "layers": cut})
        if run["outcome"] != "oom" or count == 1:
            break
        trial.figures(**{f"oom_with_{count}_layers": run["reason"]})
    assert run["outcome"] == "ok", run["reason"]
    loss = run["extra"]["last_losses"][0]
    trial.claim("the loss is a number", loss is not None and math.isfinite(loss), loss)
    steps = [ns for repeat in run["repeats"] for ns in repeat["step_ns"]]
    trial.figures(
        layer_count=count,
        step_ns=sum(steps) / len(steps),
        peak_memory=run["peak_memory"][0],
        **{key: run[key] for key in ("tokens_per_s_mean", "tokens_per_s_std", "notes")},
        **{key: run[key] for key in ("attention_backend", "overhead")},
    )
    claim_training(trial, trial.runs / folder, opt)


@each("table", [f"table{n}" for n in (3, 5, 6, 7, 8, 9, 12, 13, 14)], on_cpu=["table7"])
def test_a_table_of_training(table, trial):
    trial.table("compare", "paper", table, about="training/*")
