"""Analysis captured_kernels: nodes of CUDA graphs over their replays."""

from __future__ import annotations

from cases_as_ranks import AskedByRank, Cases
from traces_by_hand import call, kernel

CASES = Cases()
asked = CASES.fixture()

REPLAYS = CASES.add(
    [
        call(0, 1, 1, "cudaGraphLaunch"),
        kernel("gemm", 10, 14, 1, **{"graph id": 3, "graph node id": 8}),
        kernel("norm", 14, 15, 1, **{"graph id": 3, "graph node id": 9}),
        call(20, 21, 2, "cudaGraphLaunch"),
        kernel("gemm", 30, 36, 2, **{"graph id": 3, "graph node id": 8}),
        kernel("norm", 36, 37, 2, **{"graph id": 3, "graph node id": 9}),
        kernel("gemm", 40, 41, **{"graph id": 0, "graph node id": 0}),
        kernel("gemm", 42, 43),
    ]
)


def test_nodes_over_replays(asked: AskedByRank) -> None:
    names = ("graph_id", "node_id", "name", "kernel_count", "kernel_ns", "mean_ns", "max_ns")
    rows = asked.rows(REPLAYS, "captured_kernels")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (3, 8, "gemm", 2, 10_000, 5_000, 6_000),
        (3, 9, "norm", 2, 2_000, 1_000, 1_000),
    ]
