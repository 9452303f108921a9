"""Training runs that several tests look at, made once in a session."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alone import alone

from tracekit import manifest

SMALL_LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 256,
    "max_position_embeddings": 128,
}

_PRETRAIN = (
    *("Naive", "R", "F", "Q", "R+Q", "F+R"),
    *("Z1", "Z2", "Z3", "Z2+O", "Z3+O", "R+Z3", "Q+Z2", "Q+Z3"),
    *("GC:powersgd", "GC:acpsgd", "GC:topk", "GC:signsgd"),
)
_FINETUNE = (
    *("Naive", "L", "QL", "LFA", "PT", "L+F+R", "QL+R"),
    *("L+Z2", "L+R+Z3", "QL+Z2", "QL+Z3+O", "PT+Z3", "L+Z3+O"),
)
# By name: stage, opt, and what differs from the defaults.
CASES: dict[str, dict[str, Any]] = {
    **{f"pretrain {opt}": {"opt": opt} for opt in _PRETRAIN},
    **{f"finetune {opt}": {"stage": "finetune", "opt": opt} for opt in _FINETUNE},
    "sharded while made": {"opt": "R+Z3"},
    "fsdp2 Z2": {"opt": "Z2", "engine": "fsdp2"},
    "fsdp2 R+Z3": {"opt": "R+Z3", "engine": "fsdp2"},
    "fsdp2 Z3+O": {"opt": "Z3+O", "engine": "fsdp2"},
    "fsdp2 L+R+Z3": {"stage": "finetune", "opt": "L+R+Z3", "engine": "fsdp2"},
    "fsdp2 QL+Z3": {"stage": "finetune", "opt": "QL+Z3", "engine": "fsdp2"},
    "deepspeed Naive": {"opt": "Naive", "engine": "deepspeed"},
    "fp16 Naive": {"opt": "Naive", "precision": "fp16"},
    "fp32 Naive": {"opt": "Naive", "precision": "fp32"},
    "fp32 Z2": {"opt": "Z2", "precision": "fp32"},
    "fp32 fsdp2 Z2": {"opt": "Z2", "precision": "fp32", "engine": "fsdp2"},
}
_COMMON = {
    "stage": "pretrain",
    "seq_len": 32,
    "fixed_batch": True,
    "learning_rate": 3e-3,
    "warmup": 1,
    "steps": 4,
    "repeats": 2,
    "profile_steps": 1,
}
_TRAINING_PACKAGES = ("torch", "transformers", "deepspeed", "peft", "bitsandbytes")


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the configuration of a model that trains in milliseconds."""
    path = tmp_path_factory.mktemp("model") / "small.json"
    path.write_text(json.dumps(SMALL_LLAMA), "utf-8")
    return path


@pytest.fixture(scope="session")
def training_runs(shared_folder: Path, small_model: Path, python: Callable[[str], str]) -> Path:
    """Return the folder of the run folders of `CASES`, each of two ranks on one fixed batch.

    They are made once for all workers.
    """
    for package in _TRAINING_PACKAGES:
        pytest.importorskip(package)
    folder = shared_folder / "training"
    done = folder / "done"
    with alone(shared_folder / "training.lock"):
        if not done.exists():
            _train(folder, small_model, python("libraries"))
            done.touch()
    return folder


def _train(folder: Path, small_model: Path, python: str) -> None:
    from tracekit.collectors.process import launch

    if folder.exists():
        pytest.fail("the training runs have failed; another test says how")
    cases = {}
    for name, values in CASES.items():
        cases[name] = {**_COMMON, "model": str(small_model), **values}
        if "PT" in values["opt"]:  # a prompt of a few tokens learns slowly
            cases[name]["learning_rate"] = 0.3
        (folder / name / "logs").mkdir(parents=True)
    (folder / "cases.json").write_text(json.dumps(cases), "utf-8")
    script = Path(__file__).with_name("_training_ranks.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "OWN_PYTHON", (python, "-P"))
        one = {"OMP_NUM_THREADS": "1"}
        failure = launch.run_ranks([str(script), str(folder)], 2, folder, environment=one)
    if failure is not None:
        pytest.fail(f"rank {failure.rank}: {failure.how}\n{failure.log.read_text()[-4000:]}")


@pytest.fixture(scope="session", params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    """Return the name of each of `CASES` in turn."""
    return str(request.param)


@pytest.fixture(scope="session")
def manifest_of(training_runs: Path) -> Callable[[str], manifest.Manifest]:
    """Return a function that reads the manifest of one of `CASES`."""
    return lambda name: manifest.read(training_runs / name)
