"""The kernels that held the device longest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import stdev

import pytest
from traces_by_hand import kernel

import tracekit

EVENTS = [
    kernel("ampere_sgemm_128x64_tn", 0, 4),
    kernel("ampere_sgemm_128x64_tn", 10, 20),
    kernel("triton_poi_fused_add_0", 2, 6),
    kernel("void at::native::vectorized_elementwise_kernel<4>()", 30, 31),
    kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 15, 40),
    kernel("ampere_sgemm_128x64_tn", 0, 1, device=1),
]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracekit.Trace]:
    path = tmp_path_factory.mktemp("kernels") / "trace.json"
    whole = {"distributedInfo": {"rank": 2, "world_size": 4}, "traceEvents": EVENTS}
    path.write_text(json.dumps(whole), "utf-8")
    with tracekit.open(path, cache=False) as trace:
        yield trace


def test_kernels(trace: tracekit.Trace) -> None:
    result = trace.query("kernels")
    assert result.column_names == (
        "rank", "device", "name", "class", "kernel_count", "kernel_ns",
        "mean_ns", "min_ns", "max_ns", "std_ns", "wall_ns", "wall_pct",
    )  # fmt: skip
    gemm, nccl = "ampere_sgemm_128x64_tn", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    fused = "triton_poi_fused_add_0"
    elementwise = "void at::native::vectorized_elementwise_kernel<4>()"
    std_ns = pytest.approx(stdev([4_000, 10_000]))
    assert result.rows == [
        (2, "0", nccl, "comm_allreduce", 1, 25_000, 25_000.0, 25_000, 25_000, None, 19_000, 47.5),
        (2, "0", gemm, "gemm", 2, 14_000, 7_000.0, 4_000, 10_000, std_ns, 14_000, 35.0),
        (2, "0", fused, "triton_fused", 1, 4_000, 4_000.0, 4_000, 4_000, None, 2_000, 5.0),
        (2, "0", elementwise, "elementwise", 1, 1_000, 1_000.0, 1_000, 1_000, None, 1_000, 2.5),
        (2, "1", gemm, "gemm", 1, 1_000, 1_000.0, 1_000, 1_000, None, 1_000, 100.0),
    ]


def test_the_limit_is_per_device(trace: tracekit.Trace) -> None:
    assert trace.query("kernels", limit=1).column("device") == ["0", "1"]
    assert len(trace.query("kernels", limit=2)) == 3
    assert trace.query("kernels", limit=0) == trace.query("kernels")


def test_one_class(trace: tracekit.Trace) -> None:
    rows = trace.query("kernels", **{"class": "gemm"}).to_dicts()
    assert [(row["device"], row["kernel_ns"]) for row in rows] == [("0", 14_000), ("1", 1_000)]
    # Shares stay those of the whole window.
    assert [row["wall_pct"] for row in rows] == [35.0, 100.0]
    assert trace.query("kernels", **{"class": "no such class"}).rows == []


def test_equal_times_are_in_order_of_name(tiny_trace: Callable[..., Path]) -> None:
    events = [kernel(name, at, at + 1) for at, name in enumerate("dbca")]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        assert trace.query("kernels").column("name") == ["a", "b", "c", "d"]
        assert trace.query("kernels", limit=2).column("name") == ["a", "b"]
