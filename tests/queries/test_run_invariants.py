"""What the headers of the analyses of scope `runs` promise holds for runs of every kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.params import bind
from tracekit.analysis.run import with_values

MakeRun = Callable[..., Path]

ANALYSES = [spec for spec in load_catalog().analyses.values() if spec.scope == "runs"]


@pytest.fixture
def runs(make_run: MakeRun, tmp_path: Path) -> Path:
    """Training that went well and did not, serving with and without answers, no manifest at all."""
    memory = [{"rank": 0, "device_allocated_bytes": 4, "device_reserved_bytes": 5}]
    for count in (1, 2):
        make_run(
            f"train{count}",
            tokens_per_s_mean=1000 * count,
            tokens_per_s_std=10,
            peak_memory=memory,
            parallel={"world_size": count},
            repeats=[{"tokens_per_s": 1, "wall_ns": 5, "step_ns": [2, 3]}],
            overhead={"profiled_step_ns": 4},
        )
    make_run("oom", outcome="oom", reason="CUDA out of memory", parallel={"world_size": 4})
    make_run("failed", outcome="failed")
    answers = [
        {
            "request_id": n,
            "outcome": "ok" if n % 3 else "timeout",
            "sent_ns": n,
            "end_ns": 50 + n * n,
        }
        | {"token_ns": [20 + n, 30 + 2 * n, 50 + n * n], "output_token_count": 3}
        | {"arrival_ns": 0, "prompt_token_count": 4}
        for n in range(50)
    ]
    load = {"request_count": 60, "prompt_token_count": 4, "max_new_token_count": 3}
    make_run("serve", answers, stage="serve", engine="vllm", load=load)
    make_run("down", [{"request_id": 0, "outcome": "refused"}, "x"], stage="serve", engine="tgi")
    make_run("empty", [], stage="serve", engine="tgi")
    points = [
        {"bench_id": n, "family": family, "op": op, "outcome": "ok" if n % 2 else "oom"}
        | {"device": "cpu", "m": 2, "n": 3, "k": 4, "message_bytes": 8, "group_size": 2}
        | {"median_ns": 5.0, "low_ns": 4.0, "high_ns": 6.0}
        for n, (family, op) in enumerate(
            [("gemm", "mm"), ("memcpy", "h2h"), ("collective", "reduce"), ("launch", "op_call")] * 2
        )
    ]
    make_run("bench", benchmarks=points, stage="bench", engine="torch")
    make_run("broken", stage=None)
    return tmp_path


def test_invariants(runs: Path) -> None:
    with tracekit.open(runs, traces=False, cache=False) as trace:
        for spec in ANALYSES:
            rows = trace.query(spec.name)
            # Advice is nothing where nothing is wrong; test_serving_rules.py has what is.
            assert len(rows) > 0 or spec.subject == "advice", spec.name
            assert trace.query(spec.name) == rows, spec.name
            relation = with_values(spec, bind(spec, {}))
            for invariant in spec.invariants:
                failing = f"SELECT * FROM ({relation}) WHERE ({invariant}) IS DISTINCT FROM TRUE"
                assert trace.sql(failing).rows == [], (spec.name, invariant)
