"""What becomes of claims that do not hold, of a lost CUDA context, and of tests without time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = """
from devices import on_each_device

@on_each_device
def test_claims(trial):
    trial.claim("one and one is two", False, 3, "2")
    trial.claim("two and two is four", True, 4)
    trial.claim("three is odd", False)

@on_each_device
def test_a_full_device(trial):
    raise RuntimeError("CUDA error: out of memory")

@on_each_device
def test_a_lost_context(trial):
    raise RuntimeError("CUDA error: an illegal memory access was encountered")

@on_each_device
def test_after_it(trial):
    trial.claim("the share is a number", True, float("nan"))
"""


def outcome_of(folder, *words, **variables):
    """Return what pytest says of the tests on the CPU."""
    (folder / "test_it.py").write_text(_TESTS)
    here = Path(__file__).parent
    modules = os.pathsep.join([str(here), str(here.parent / "shared")])
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-k", "cpu", *words]
    inherited = {key: value for key, value in os.environ.items() if "XDIST" not in key}
    done = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(folder), "-rfsp", str(folder / "test_it.py")],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**inherited, "PYTHONPATH": modules, "TRACEKIT_GPU_TESTS_ON_CPU": "all", **variables},
        timeout=120,
        check=False,
    )
    return done.stdout


def test_all_claims_are_told_and_a_lost_context_costs_one_test(tmp_path):
    pytest.importorskip("torch")
    said = outcome_of(tmp_path, "-n", "1")
    assert "one and one is two: 3, wanted 2\nthree is odd: None" in said
    assert "crashed while running 'test_it.py::test_a_lost_context[cpu]'" in said
    assert "PASSED test_it.py::test_after_it[cpu]" in said
    assert "3 failed, 1 passed" in said


def test_without_other_processes_nothing_runs_after_a_lost_context(tmp_path):
    pytest.importorskip("torch")
    said = outcome_of(tmp_path, "-n", "0")
    assert "the CUDA context is lost: no later test could be believed" in said
    assert "test_after_it" not in said


def test_what_no_time_is_left_for_is_said(tmp_path):
    pytest.importorskip("torch")
    said = outcome_of(tmp_path, TRACEKIT_GPU_TESTS_UNTIL="1")
    assert "4 skipped" in said
    assert "no time was left" in said
