"""Training runs that several tests look at, made once in a session."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from alone import alone
from training_cases import CASES, RANKS, SMALL_LLAMA, arguments_of

from tracekit import manifest

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
    for name in CASES:
        (folder / name / "logs").mkdir(parents=True)
    cases = {name: arguments_of(name, small_model) for name in CASES}
    (folder / "cases.json").write_text(json.dumps(cases), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "OWN_PYTHON", (python, "-P"))
        one = {"OMP_NUM_THREADS": "1"}
        failure = launch.run_ranks([str(RANKS), str(folder), "cpu"], 2, folder, environment=one)
    if failure is not None:
        pytest.fail(
            f"rank {failure.rank}: {failure.exit_description}\n{failure.log.read_text()[-4000:]}"
        )


@pytest.fixture(scope="session", params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def manifest_of(training_runs: Path) -> Callable[[str], manifest.Manifest]:
    return lambda name: manifest.read(training_runs / name)
