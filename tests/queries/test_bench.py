"""Rates of microbenchmarks, from lines that are easy to compute by hand."""

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
from tracekit.errors import QueryError

MakeRun = Callable[..., Path]

GPU = {"device": "cuda:0", "device_name": "NVIDIA A100-SXM4-80GB", "timer": "cuda_event"}
CPU = {"device": "cpu", "device_name": "Some CPU", "timer": "wall_clock"}
MIB = 2**20


def line(
    number: int, family: str, op: str, median_ns: float | None = 1000.0, **members: Any
) -> Any:
    """A point whose interval is a fifth below and a quarter above its median."""
    times: dict[str, Any] = {"outcome": "ok"}
    if median_ns is not None:
        times |= {"median_ns": median_ns, "low_ns": 0.8 * median_ns, "high_ns": 1.25 * median_ns}
        times |= {"confidence_pct": 95, "repeat_count": 10, "sample_ns": [median_ns]}
    return {"bench_id": number, "family": family, "op": op, **times, **members}


def product(
    number: int, dtype: str, median_ns: float | None, m: int | None = 1000, **more: Any
) -> Any:
    shape = {"op": "mm", "dtype": dtype, "m": m, "n": 2000, "k": 500, **GPU}
    return line(number, "gemm", median_ns=median_ns, **shape | more)


def collective(
    number: int, op: str, size: int, median_ns: float, ranks: int = 4, **more: Any
) -> Any:
    sized = {"message_bytes": size, "group_size": ranks, "backend": "nccl", "dtype": "fp32", **GPU}
    return line(number, "collective", op, median_ns, **sized | more)


def copy(number: int, op: str, size: int, median_ns: float, **more: Any) -> Any:
    return line(number, "memcpy", op, median_ns, message_bytes=size, **GPU | more)


@pytest.fixture
def asked(make_run: MakeRun) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that makes a run of lines and asks an analysis."""

    def ask(name: str, lines: list[Any], **params: object) -> list[dict[str, Any]]:
        folder = make_run("bench", benchmarks=lines, stage="bench", engine="torch")
        with tracekit.open(folder, cache=False) as trace:
            return trace.query(name, **params).to_dicts()

    return ask


Asked = Callable[..., list[dict[str, Any]]]


def test_products(asked: Asked) -> None:
    """2 * 1000 * 2000 * 500 = 2e9 operations in 20 µs are 100 TFLOP/s of an A100's 312."""
    (row,) = asked("bench_gemm", [product(0, "bf16", 20_000.0)])
    assert row["flops"] == 2_000_000_000
    assert row["flop_per_s"] == pytest.approx(1e14)
    assert row["low_flop_per_s"] == pytest.approx(8e13)
    assert row["high_flop_per_s"] == pytest.approx(1.25e14)
    assert row["interval_pct"] == pytest.approx(45)
    assert (row["peak_flop_per_s"], row["reason"]) == (312e12, None)
    assert row["peak_pct"] == pytest.approx(100 * 100 / 312)


def test_groups_count_all_their_products(asked: Asked) -> None:
    (row,) = asked("bench_gemm", [product(0, "bf16", 20_000.0, batch=8)])
    assert (row["batch"], row["flops"]) == (8, 16_000_000_000)
    assert row["flop_per_s"] == pytest.approx(8e14)


def test_why_there_is_no_share_of_the_peak(asked: Asked) -> None:
    lines = [
        product(0, "fp32", 1e6, **CPU),
        product(1, "fp8", 1e6),
        product(2, "bf16", 1e6, device_name="NVIDIA B7"),
        product(3, "bf16", None, outcome="oom", reason="CUDA out of memory"),
        product(4, "bf16", 0.0),
        product(5, "bf16", None),
        product(6, "bf16", 1e6, m=None),
    ]
    rows = asked("bench_gemm", lines)
    assert [row["reason"] for row in rows] == [
        "the data sheet of a CPU tells no peak",
        "the device has no peak for this type",
        "the peak of this device is not known",
        "oom: CUDA out of memory",
        "it took no time that the clock could tell",
        "the line has no time",
        "the line has no shape",
    ]
    assert [row["flop_per_s"] is None for row in rows] == [False] * 3 + [True] * 4
    assert all(row["peak_pct"] is None for row in rows)


def test_a_part_of_a_device_has_no_peak(asked: Asked) -> None:
    """A partition of an MI300X goes by the name of the whole, with fewer compute units."""
    whole = {"device_name": "AMD Instinct MI300X", "unit_count": 304}
    lines = [
        product(0, "bf16", 1e6, **whole),
        product(1, "bf16", 1e6, **whole | {"unit_count": 38}),
    ]
    first, second = asked("bench_gemm", lines)
    assert first["peak_pct"] is not None
    assert (second["peak_pct"], second["reason"]) == (None, "the peak of this device is not known")


def test_the_best_of_each_type(asked: Asked) -> None:
    lines = [
        product(0, "bf16", 30_000.0),
        product(1, "bf16", 20_000.0),
        product(2, "fp32", 90_000.0),
        product(3, "bf16", None, outcome="failed", reason="x"),
        product(4, "bf16", 25_000.0, batch=1, op="grouped_mm"),
    ]
    rows = asked("bench_gemm", lines, best=True)
    assert [(row["op"], row["dtype"], row["median_ns"]) for row in rows] == [
        ("mm", "bf16", 20_000.0), ("mm", "fp32", 90_000.0), ("grouped_mm", "bf16", 25_000.0),
    ]  # fmt: skip


def test_copies(asked: Asked) -> None:
    """256 MiB in 0.4 ms inside of the memory are 1.342 TB/s of traffic of an A100's 2.039."""
    lines = [
        copy(0, "h2d", 24_000, 1000.0, memory="pinned"),
        copy(1, "d2d", 256 * MIB, 400_000.0),
        copy(2, "h2h", 1000, 500.0, memory="pageable", **CPU),
    ]
    up, inside, host = asked("bench_memcpy", lines)
    assert (up["bytes_per_s"], up["traffic_bytes_per_s"], up["peak_pct"]) == (24e9, None, None)
    assert (up["low_bytes_per_s"], up["high_bytes_per_s"]) == (19.2e9, 30e9)
    assert inside["bytes_per_s"] == pytest.approx(256 * MIB / 4e-4)
    assert inside["traffic_bytes_per_s"] == pytest.approx(2 * 256 * MIB / 4e-4)
    assert inside["peak_pct"] == pytest.approx(100 * 2 * 256 * MIB / 4e-4 / 2.039e12)
    assert (host["traffic_bytes_per_s"], host["peak_bytes_per_s"]) == (4e9, None)


@pytest.mark.parametrize(
    ("op", "factor"),
    [
        ("all_reduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("all_to_all", 0.75),
        ("reduce", 1.0), ("broadcast", 1.0), ("send_recv", 1.0),
    ],
)  # fmt: skip
def test_bandwidth_of_collectives_is_that_of_nccl_tests(
    asked: Asked, op: str, factor: float
) -> None:
    """Four ranks, 12 MB in a millisecond: doc/PERFORMANCE.md of nccl-tests has the factors."""
    (row,) = asked("bench_collectives", [collective(0, op, 12_000_000, 1e6)])
    assert row["algorithm_bytes_per_s"] == 12e9
    assert row["bus_factor"] == factor
    assert row["bus_bytes_per_s"] == pytest.approx(12e9 * factor)
    assert row["low_bus_bytes_per_s"] == pytest.approx(9.6e9 * factor)
    assert row["high_bus_bytes_per_s"] == pytest.approx(15e9 * factor)
    assert row["reason"] is None


def test_one_rank_moves_nothing(asked: Asked) -> None:
    lines = [collective(0, "all_reduce", 1000, 5.0, ranks=1), collective(1, "gossip", 1000, 5.0)]
    one, unknown = asked("bench_collectives", lines)
    assert (one["median_ns"], one["bus_bytes_per_s"], one["bus_factor"]) == (5.0, None, None)
    assert one["reason"] == "one rank moves nothing"
    assert unknown["algorithm_bytes_per_s"] == 2e11
    assert unknown["reason"] == "the bus factor of this op is not known"


def test_launches(asked: Asked) -> None:
    lines = [
        line(0, "launch", "empty_kernel", 2000.0, **GPU),
        line(1, "launch", "stream_sync", None, outcome="failed", reason="x", series="idle", **GPU),
    ]
    kernel, sync = asked("bench_launches", lines)
    assert (kernel["median_ns"], kernel["low_ns"], kernel["high_ns"]) == (2000.0, 1600.0, 2500.0)
    assert (sync["median_ns"], sync["reason"]) == (None, "failed: x")


def test_an_interval_that_holds_not_its_median_is_none(asked: Asked) -> None:
    lines = [
        product(0, "bf16", 100.0, low_ns=110.0),
        product(1, "bf16", 100.0, high_ns=None),
        product(2, "bf16", 100.0, low_ns=0.0),
    ]
    for row in asked("bench_gemm", lines):
        assert (row["median_ns"], row["low_ns"], row["interval_pct"]) == (100.0, None, None)


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


def test_health_of_a_bench_run(make_run: MakeRun) -> None:
    lines = [
        product(0, "bf16", 100.0),
        product(1, "bf16", 100.0, low_ns=99.0, high_ns=101.0),
        product(2, "bf16", None, outcome="oom", reason="x"),
    ]
    folder = make_run("bench", benchmarks=lines, stage="bench", engine="torch")
    with tracekit.open(folder, cache=False) as trace:
        found = trace.breakdown()
    health = {row["metric"]: (row["value"], row["severity"]) for row in found["health"].to_dicts()}
    assert health["points_without_time"] == (1.0, "note")
    assert health["points_with_wide_interval"] == (50.0, "note")
    assert list(found) == ["run", *BENCH_BREAKDOWN, "health"]


def test_a_run_without_benchmarks_says_so(make_run: MakeRun) -> None:
    folder = make_run("train")
    with (
        tracekit.open(folder, cache=False) as trace,
        pytest.raises(QueryError, match=r"bench_gemm is about microbenchmarks, and .* has none"),
    ):
        trace.query("bench_gemm")


def test_several_runs_are_told_apart(make_run: MakeRun, tmp_path: Path) -> None:
    for name, median_ns in (("one", 20_000.0), ("two", 10_000.0)):
        make_run(name, benchmarks=[product(0, "bf16", median_ns)], stage="bench", engine="torch")
    with tracekit.open(tmp_path, traces=False, cache=False) as trace:
        rows = trace.query("bench_gemm").to_dicts()
    assert [(row["run"], row["is_best"]) for row in rows] == [("one", True), ("two", True)]
