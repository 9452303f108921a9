"""Lines of microbenchmarks whatever they say; rates are in tests/cases/bench.case."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tracekit.analysis.breakdown import BENCH_BREAKDOWN
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.params import bind
from tracekit.analysis.run import with_values

MakeRun = Callable[..., Path]


def line(
    number: int, family: str, op: str, median_ns: float | None = 1000.0, **members: Any
) -> Any:
    """A point whose interval is a fifth below and a quarter above its median."""
    times: dict[str, Any] = {"outcome": "ok"}
    if median_ns is not None:
        times |= {"median_ns": median_ns, "low_ns": 0.8 * median_ns, "high_ns": 1.25 * median_ns}
        times |= {"confidence_pct": 95, "repeat_count": 10, "sample_ns": [median_ns]}
    return {"bench_id": number, "family": family, "op": op, **times, **members}


@pytest.mark.parametrize("name", BENCH_BREAKDOWN)
def test_invariants_hold_whatever_the_lines_say(make_run: MakeRun, name: str) -> None:
    biggest = 2**31 - 1
    families = {"gemm": "mm", "memcpy": "d2d", "collective": "all_reduce", "launch": "op_call"}
    lines: list[Any] = []
    for family, op in families.items():
        for median_ns in (None, 0.0, 1e-9, 1.0, 1e300):
            for members in (
                {},
                {"m": biggest, "n": biggest, "k": biggest, "batch": biggest},
                {"m": 1, "n": 1, "k": 1, "message_bytes": 0, "group_size": 2},
                {"m": 1, "n": 1, "k": 1, "message_bytes": 2**63 - 1, "group_size": biggest},
                {"outcome": "odd", "reason": "x"},
            ):
                lines.append(line(len(lines), family, op, median_ns, **members))
    folder = make_run("bench", benchmarks=lines, stage="bench", engine="torch")
    spec = load_catalog().analyses[name]
    relation = with_values(spec, bind(spec, {}))
    with tracekit.open(folder, cache=False) as trace:
        assert len(trace.query(name)) == 25
        for invariant in spec.invariants:
            failing = f"SELECT * FROM ({relation}) WHERE ({invariant}) IS DISTINCT FROM TRUE"
            assert trace.sql(failing).rows == [], invariant


def test_lines_that_are_no_points_are_set_aside(make_run: MakeRun) -> None:
    lines = [
        line(0, "gemm", "mm"),
        line(0, "gemm", "mm"),
        "{",
        json.dumps(line(1, "poetry", "ode")),
        json.dumps(line(2, "gemm", "mm", m=2**31)),
        json.dumps(line(3, "gemm", "mm", median_ns=-1.0)),
        json.dumps(line(4, "gemm", "mm", temper="good")),
    ]
    folder = make_run("bench", benchmarks=lines, stage="bench", engine="torch")
    with tracekit.open(folder, cache=False) as trace:
        assert trace.sql("SELECT bench_id, extra ->> 'temper' FROM benchmark").rows == [
            (0, None), (4, "good"),
        ]  # fmt: skip
        (counts,) = trace.sql("SELECT benchmark_count, request_count, rejected_count FROM run").rows
        assert counts == (2, 0, 5)
        reasons = [reason for (reason,) in trace.sql("SELECT reason FROM rejected").rows]
        assert reasons[0] == "benchmark 0 comes twice"
        assert all(reason.startswith("no benchmark: ") for reason in reasons[1:])
        health = {row["metric"]: row for row in trace.health().to_dicts()}
    assert health["rejected_benchmark_lines"]["value"] == 5
    assert "rejected_request_lines" not in health


def test_the_breakdown_of_a_bench_run(make_run: MakeRun) -> None:
    lines = [line(0, "gemm", "mm")]
    folder = make_run("bench", benchmarks=lines, stage="bench", engine="torch")
    with tracekit.open(folder, cache=False) as trace:
        assert list(trace.breakdown()) == ["run", *BENCH_BREAKDOWN, "health"]
