"""Analyses compute_memory and mfu: operations and bytes by shapes, and what bounds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import opened_as_ranks, rows_by_rank
from every_trace import Answered, on_every_trace
from traces_by_hand import Event, span

import tracekit

BF16 = "c10::BFloat16"
A100 = [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_000_000_000}]


def op(
    name: str,
    dims: list[Any],
    values: list[str] | None = None,
    *,
    types: list[str] | None = None,
    start: float = 0,
    end: float = 10,
    kernel: str = "some_kernel",
) -> list[Event]:
    types = types or [BF16 if dim else "Scalar" for dim in dims]
    args: dict[str, Any] = {"Input Dims": dims, "Input type": types}
    if values is not None:
        args["Concrete Inputs"] = values
    number = int(start) + 1
    link = {"correlation": number, "device": 0, "stream": 7}
    return [
        span("cpu_op", name, start, start + 3, **args),
        span("cuda_runtime", "cudaLaunchKernel", start + 1, start + 2, correlation=number),
        span("kernel", kernel, start, end, 7, **link) | {"pid": 0},
    ]


QKV = [[2, 8, 100, 64], [2, 8, 100, 64], [2, 8, 100, 64]]
ONE = 2 * 8 * 100 * 64  # elements of each of query, key and value
PAIRS = 2 * 8 * 100 * 100


# Name, sizes and values of an op, its class, and operations and bytes by hand.
ON_PAPER: list[tuple[str, list[Any], list[str] | None, str, int, int]] = [
    ("aten::mm", [[64, 32], [32, 16]], None, "gemm", 2 * 64 * 32 * 16, 2 * (2048 + 512 + 1024)),
    (
        "aten::bmm",
        [[8, 64, 32], [8, 32, 16]],
        None,
        "gemm",
        8 * 2 * 64 * 32 * 16,
        8 * 2 * (2048 + 512 + 1024),
    ),
    (
        "aten::_scaled_dot_product_flash_attention",
        [*QKV, [], [], [], []],
        ["", "", "", "0.", "False", "False", ""],
        "attention",
        4 * PAIRS * 64,
        2 * 4 * ONE,
    ),
    (
        "aten::_scaled_dot_product_flash_attention",
        [*QKV, [], [], [], []],
        ["", "", "", "0.", "True", "False", ""],
        "attention",
        4 * (2 * 8 * 100 * 101 // 2) * 64,
        2 * 4 * ONE,
    ),
    # Grouped heads: 8 of queries, 2 of keys and values; a query of one token sees every key.
    (
        "aten::_flash_attention_forward",
        [[2, 1, 8, 64], [2, 100, 2, 64], [2, 100, 2, 64], *[[]] * 7],
        ["", "", "", "", "", "1", "100", "0.", "True", "False"],
        "attention",
        4 * 2 * 8 * 100 * 64,
        2 * (2 * 2 * 8 * 64 + 2 * 2 * 100 * 2 * 64),
    ),
    (
        "aten::_efficient_attention_backward",
        [[2, 100, 8, 64], *[[2, 100, 8, 64]] * 3, [], [2, 100, 8, 64], *[[]] * 11],
        [*[""] * 14, "0"],
        "attention",
        10 * PAIRS * 64,
        2 * 8 * ONE,
    ),
    (
        "aten::native_layer_norm",
        [[10, 64], [], [64], [64], []],
        None,
        "norm",
        5 * 640,
        2 * (640 + 64 + 64 + 640),
    ),
    ("aten::_softmax", [[10, 64], [], []], None, "softmax", 5 * 640, 2 * 2 * 640),
    ("aten::add", [[10, 64], [10, 64], []], None, "elementwise", 640, 2 * 3 * 640),
    # A vector is spread over the rows; a number beside it makes nothing wider.
    ("aten::mul", [[64], [10, 64]], None, "elementwise", 640, 2 * (64 + 2 * 640)),
    ("aten::gt", [[10, 64], []], None, "elementwise", 640, 2 * 640 + 640),
    ("aten::sum", [[10, 64], [], [], []], None, "reduction", 640, 2 * 640),
    ("aten::copy_", [[10, 64], [10, 64], []], None, "layout", 0, 2 * 2 * 640),
    (
        "aten::cudnn_convolution",
        [[1, 3, 8, 8], [4, 3, 3, 3], *[[]] * 6],
        ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"],
        "conv",
        2 * 4 * 4 * 4 * 27,
        2 * (192 + 108 + 64),
    ),
]


@pytest.fixture(scope="module")
def on_paper(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[str, Any]]]:
    """Return what is said of each of `ON_PAPER`, which is the rank of its number."""
    cases = [op(name, dims, values) for name, dims, values, *_ in ON_PAPER]
    folder = tmp_path_factory.mktemp("on_paper")
    with opened_as_ranks(folder, cases, deviceProperties=A100) as trace:
        return rows_by_rank(trace, "compute_memory")


@pytest.mark.parametrize(
    ("rank", "op_class", "flops", "size"),
    [(rank, *said) for rank, (_, _, _, *said) in enumerate(ON_PAPER)],
    ids=[case[0] for case in ON_PAPER],
)
def test_operations_and_bytes_on_paper(
    on_paper: dict[int, list[dict[str, Any]]], rank: int, op_class: str, flops: int, size: int
) -> None:
    (row,) = on_paper[rank]
    assert (row["op_class"], row["flops"], row["bytes"]) == (op_class, flops, size)
    assert row["kernel_pct"] == 100.0
    assert row["intensity_flop_per_byte"] == pytest.approx(flops / size)
    assert row["ridge_flop_per_byte"] == pytest.approx(312e12 / 2.039e12)
    assert row["bound"] == ("compute" if flops / size >= 312e12 / 2.039e12 else "memory")
    assert row["reason"] is None


def test_types_of_each_argument_count(tiny_trace: Callable[..., Path]) -> None:
    """Rows of an embedding by int64 numbers; bf16 plus fp32 gives fp32."""
    events = [
        *op("aten::embedding", [[1000, 64], [2, 5], []], types=[BF16, "long int", "Scalar"]),
        *op("aten::add", [[10], [10], []], types=[BF16, "float", "Scalar"], start=20, end=30),
        *op("aten::mul", [[10], []], types=[BF16, "double"], start=40, end=50),
    ]
    with tracekit.open(tiny_trace(events, deviceProperties=A100), cache=False) as trace:
        rows = {row["op_class"]: row for row in trace.query("compute_memory").to_dicts()}
    assert rows["embedding"]["bytes"] == 2 * 2 * 10 * 64 + 8 * 10
    assert rows["elementwise"]["bytes"] == (20 + 40 + 40) + (20 + 8 + 20)


def test_packed_sequences_and_unknown_ops_are_refused(tiny_trace: Callable[..., Path]) -> None:
    packed = [[200, 8, 64], [200, 8, 64], [200, 8, 64], [3], [3], *[[]] * 5]
    types = [BF16, BF16, BF16, "int", "int", *["Scalar"] * 5]
    events = [
        *op("aten::_flash_attention_forward", packed, [""] * 10, types=types),
        *op("my::op", [[2]], start=20, end=50),
    ]
    with tracekit.open(tiny_trace(events, deviceProperties=A100), cache=False) as trace:
        rows = trace.query("compute_memory").to_dicts()
    assert [(row["op_class"], row["top_op"], row["reason"]) for row in rows] == [
        (None, "my::op", "its operations are not known"),
        (
            None,
            "aten::_flash_attention_forward",
            "its sequences are packed, and their lengths not in the shapes",
        ),
    ]
    assert [row["kernel_pct"] for row in rows] == [75.0, 25.0]


def test_an_optimizer_has_operations_but_no_bytes(tiny_trace: Callable[..., Path]) -> None:
    """The types of the tensors of a list are not recorded."""
    lists = [[[100], [28]]] * 4
    events = op("aten::_fused_adamw_", lists, types=["TensorList"] * 4)
    with tracekit.open(tiny_trace(events, deviceProperties=A100), cache=False) as trace:
        (row,) = trace.query("compute_memory").to_dicts()
    assert (row["op_class"], row["flops"], row["bytes"]) == ("optimizer", 15 * 128, None)
    assert row["reason"] == "its shapes and types do not tell its bytes"


@on_every_trace
def test_all_compute_has_a_row(answered: Answered, path: Path) -> None:
    ask = answered(path)
    (total,) = ask.trace.sql(
        "SELECT coalesce(sum(dur_ns), 0)::BIGINT FROM device_events WHERE kind = 'compute'"
    ).rows
    assert sum(ask("compute_memory").column("kernel_ns")) == total[0]


def step(number: int, start: float, end: float) -> Event:
    return span("user_annotation", f"ProfilerStep#{number}", start, end)


def test_utilisation_of_a_step_on_paper(tiny_trace: Callable[..., Path]) -> None:
    """1e9 operations each in forward and in recomputation, in a step of 100 µs: 3.2 and 6.4 %."""
    shapes = [[1000, 1000], [1000, 500]]
    gemm = {"kernel": "sm80_xmma_gemm_bf16"}
    events = [
        step(1, 0, 100),
        span("user_annotation", "tk/module/forward/model.layers.0#Block", 0, 40),
        *op("aten::mm", shapes, start=5, end=20, **gemm),
        span("user_annotation", "tk/module/recompute/model.layers.0#Block", 50, 90),
        *op("aten::mm", shapes, start=55, end=70, **gemm),
    ]
    with tracekit.open(tiny_trace(events, deviceProperties=A100), cache=False) as trace:
        phases = {row["phase"] for row in trace.query("phases").to_dicts()}
        (row,) = trace.query("mfu").to_dicts()
    assert "recompute" in phases
    assert (row["step"], row["step_ns"], row["flops"]) == (1, 100_000, 2 * 10**9)
    assert (row["recompute_flops"], row["dtype"], row["covered_pct"]) == (10**9, "bf16", 100.0)
    assert row["hfu_pct"] == pytest.approx(100 * 2e9 / 312e12 / 100e-6)
    assert row["mfu_pct"] == pytest.approx(row["hfu_pct"] / 2)
    assert row["reason"] is None


def test_utilisation_is_refused_with_the_reason(tiny_trace: Callable[..., Path]) -> None:
    gemm = {"kernel": "sm80_xmma_gemm_bf16"}
    known = op("aten::mm", [[10, 10], [10, 10]], end=10, **gemm)
    unknown = op("my::gemm", [[10, 10]], start=20, end=25, **gemm)
    path = tiny_trace([*known, *unknown], deviceProperties=A100)
    with tracekit.open(path, cache=False) as trace:
        (row,) = trace.query("mfu").to_dicts()
        (lenient,) = trace.query("mfu", min_covered_pct=60).to_dicts()
    assert row["covered_pct"] == pytest.approx(100 * 10 / 15)
    assert (row["step"], row["mfu_pct"]) == (None, None)
    assert row["reason"] == "the operations are known for too little of the time of such kernels"
    assert lenient["mfu_pct"] == pytest.approx(100 * 2000 / 312e12 / 25e-6)
    with tracekit.open(tiny_trace(known), cache=False) as trace:
        (row,) = trace.query("mfu").to_dicts()
    assert row["reason"] == "the peak of this device is not known"
