"""`tracekit bench all` on a GPU."""

import json
from collections import Counter

import pytest
from devices import each, on_each_device

pytestmark = pytest.mark.alone

_ASKED = {
    **{f"figure{number}": ("compare", "paper", f"figure{number}") for number in range(11, 16)},
    **{
        name: ("query", name)
        for name in ("bench_gemm", "bench_memcpy", "bench_collectives", "bench_launches")
    },
}


@on_each_device
def test_no_point_fails(trial):
    folder = trial.runs / "bench"
    what = "all" if trial.is_cuda else "memcpy"
    done = trial.tracekit("bench", what, "--out", folder)
    assert done.exit_code == 0, done.stderr
    lines = (folder / "benchmarks.jsonl").read_text("utf-8").splitlines()
    points = [json.loads(line) for line in lines]
    trial.figures(**Counter(f"{point['family']} {point['outcome']}" for point in points))
    wrong = [point["reason"] for point in points if point["outcome"] == "failed"]
    trial.claim("no point failed", not wrong, wrong[:5])


@each("name", _ASKED, on_cpu=["bench_memcpy", "figure12"])
def test_a_figure_of_the_machine(name, trial):
    trial.table(*_ASKED[name], about="bench")
