"""Devices that a test runs on: a GPU, and the CPU to check the test itself.

GPU tests have the mark `gpu`. On the CPU some cases of each test run in `make test-all`, and all of
them with TRACEKIT_GPU_TESTS_ON_CPU=all, which takes 15 minutes. Claims that need a GPU are skipped
on the CPU.
"""

import os
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "collectors" / "loops" / "programs"
"""Third-party training loops, which run on the device in LOOP_DEVICE."""

_ON_CPU = os.environ.get("TRACEKIT_GPU_TESTS_ON_CPU", "some")

on_gpu = pytest.mark.parametrize(
    "device", [pytest.param("cuda", marks=pytest.mark.gpu)], indirect=True
)
on_each_device = pytest.mark.parametrize(
    "device",
    [
        pytest.param("cuda", marks=pytest.mark.gpu),
        pytest.param(
            "cpu",
            marks=pytest.mark.skipif(
                _ON_CPU != "all", reason="TRACEKIT_GPU_TESTS_ON_CPU=all runs it on the CPU"
            ),
        ),
    ],
    indirect=True,
)


def each(name, cases, on_cpu):
    """Parametrize a test over cases on the GPU, and over some of them on the CPU."""
    names = list(cases)
    there = names if _ON_CPU == "all" else on_cpu
    params = [
        *(pytest.param(one, "cuda", id=f"{one}-cuda", marks=pytest.mark.gpu) for one in names),
        *(pytest.param(one, "cpu", id=f"{one}-cpu") for one in there),
    ]
    return pytest.mark.parametrize((name, "device"), params, indirect=["device"])
