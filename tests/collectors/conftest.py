"""Training runs that several tests read, made once in a session."""

import json

import pytest
from alone import alone
from training_cases import CASES, GATE, RANKS, SMALL_LLAMA, arguments_of

from tracekit import manifest


@pytest.fixture(scope="session")
def small_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small.json"
    path.write_text(json.dumps(SMALL_LLAMA), "utf-8")
    return path


@pytest.fixture(scope="session")
def training_run(shared_folder, small_model):
    """Return a function that returns the run folder of a case, of two ranks on one fixed batch."""
    for package in ("torch", "transformers", "deepspeed", "peft", "bitsandbytes"):
        pytest.importorskip(package)

    def folder_of(name):
        names = GATE if name in GATE else [case for case in CASES if case not in GATE]
        folder = shared_folder / ("training" if name in GATE else "nightly_training")
        with alone(folder.with_suffix(".lock")):
            if not (folder / "done").exists():
                _train(folder, {name: arguments_of(name, small_model) for name in names})
                (folder / "done").touch()
        return folder / name

    return folder_of


def _train(folder, cases):
    from tracekit.collectors.process import launch

    if folder.exists():
        pytest.fail("the training runs have failed; the failure is reported by another test")
    for name in cases:
        (folder / name / "logs").mkdir(parents=True)
    (folder / "cases.json").write_text(json.dumps(cases), "utf-8")
    failure = launch.run_ranks([str(RANKS), str(folder), "cpu"], 2, folder)
    if failure is not None:
        log = failure.log.read_text()[-4000:]
        pytest.fail(f"rank {failure.rank}: {failure.exit_description}\n{log}")


@pytest.fixture(scope="session")
def manifest_of(training_run):
    return lambda name: manifest.read(training_run(name))
