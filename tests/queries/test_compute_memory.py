"""Analyses compute_memory and mfu: operations and bytes by shapes, and what bounds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import AskedByRank, Cases
from every_trace import Answered, on_some_traces
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


ON_PAPER = Path(__file__).with_name("op_costs_on_paper.txt")


CASES = Cases()
asked = CASES.fixture(deviceProperties=A100)


def on_paper(line: str) -> tuple[int, str, int, int]:
    """Return the rank of an op's trace, its class, operations and bytes."""
    name, dims, values, op_class, flops, size = (cell.strip() for cell in line.split("|"))
    rank = CASES.add(op(name, eval(dims), eval(values) if values else None))
    return rank, op_class, eval(flops), eval(size)


LINES = [line for line in ON_PAPER.read_text("utf-8").splitlines() if line[0] != "#"]
OPS = [on_paper(line) for line in LINES]


@pytest.mark.parametrize(
    ("rank", "op_class", "flops", "size"), OPS, ids=[line.split(" ")[0] for line in LINES]
)
def test_operations_and_bytes_on_paper(
    asked: AskedByRank, rank: int, op_class: str, flops: int, size: int
) -> None:
    (row,) = asked.rows(rank, "compute_memory")
    assert (row["op_class"], row["flops"], row["bytes"]) == (op_class, flops, size)
    assert row["kernel_pct"] == 100.0
    assert row["intensity_flop_per_byte"] == pytest.approx(flops / size)
    assert row["ridge_flop_per_byte"] == pytest.approx(312e12 / 2.039e12)
    assert row["bound"] == ("compute" if flops / size >= 312e12 / 2.039e12 else "memory")
    assert row["reason"] is None


CACHED = CASES.add(op("aten::add", [[1000, 1000], [1000, 1000], []], start=0, end=1))


def test_more_than_the_memory_can_move_has_a_reason(asked: AskedByRank) -> None:
    """6 MB in 1 µs."""
    (row,) = asked.rows(CACHED, "compute_memory")
    assert row["attainable_pct"] == pytest.approx(100 * 6e6 / 1e-6 / 2.039e12)
    assert row["reason"] == "more bytes than the memory can move: part of them stayed in a cache"


TYPES = CASES.add(
    [
        *op("aten::embedding", [[1000, 64], [2, 5], []], types=[BF16, "long int", "Scalar"]),
        *op("aten::add", [[10], [10], []], types=[BF16, "float", "Scalar"], start=20, end=30),
        *op("aten::mul", [[10], []], types=[BF16, "double"], start=40, end=50),
    ]
)


def test_types_of_each_argument_count(asked: AskedByRank) -> None:
    """Rows of an embedding by int64 numbers; bf16 plus fp32 gives fp32."""
    rows = {row["op_class"]: row for row in asked.rows(TYPES, "compute_memory")}
    assert rows["embedding"]["bytes"] == 2 * 2 * 10 * 64 + 8 * 10
    assert rows["elementwise"]["bytes"] == (20 + 40 + 40) + (20 + 8 + 20)


# What a convolution adds to its output is another op.
CONVOLUTION = op(
    "aten::miopen_convolution",
    [[1, 3, 8, 8], [4, 3, 3, 3], [4], *[[]] * 6],
    ["", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "False", "False"],
)
BIAS = CASES.add(
    [
        span("cpu_op", CONVOLUTION[0]["name"], 0, 8, **CONVOLUTION[0]["args"]),
        *CONVOLUTION[1:],
        *op("aten::add_", [[1, 4, 4, 4], [1, 4, 1, 1], []], start=4, end=14),
    ]
)


def test_a_convolution_with_a_bias_counts(asked: AskedByRank) -> None:
    rows = asked.rows(BIAS, "compute_memory")
    assert {row["op_class"]: row["flops"] for row in rows} == {
        "conv": 2 * 64 * 27,
        "elementwise": 64,
    }


PACKED = [[200, 8, 64], [200, 8, 64], [200, 8, 64], [3], [3], *[[]] * 5]
PACKED_TYPES = [BF16, BF16, BF16, "int", "int", *["Scalar"] * 5]


REFUSED = CASES.add(
    [
        *op("aten::_flash_attention_forward", PACKED, [""] * 10, types=PACKED_TYPES),
        *op("my::op", [[2]], start=20, end=50),
        *op("vllm::unified_attention_with_output", PACKED[:3], start=60, end=65),
    ]
)


def test_packed_sequences_and_unknown_ops_are_refused(asked: AskedByRank) -> None:
    rows = asked.rows(REFUSED, "compute_memory")
    assert [(row["op_class"], row["top_op"], row["reason"]) for row in rows] == [
        (None, "my::op", "its operations are not known"),
        (
            None,
            "aten::_flash_attention_forward",
            "its sequences are packed, and their lengths not in the shapes",
        ),
    ]
    assert [row["kernel_ns"] for row in rows] == [30_000, 15_000]
    assert rows[1]["bytes"] is None


OPTIMIZER = CASES.add(op("aten::_fused_adamw_", [[[100], [28]]] * 4, types=["TensorList"] * 4))


def test_an_optimizer_has_operations_but_no_bytes(asked: AskedByRank) -> None:
    """The types of the tensors of a list are not recorded."""
    (row,) = asked.rows(OPTIMIZER, "compute_memory")
    assert (row["op_class"], row["flops"], row["bytes"]) == ("optimizer", 15 * 128, None)
    assert row["reason"] == "its shapes and types do not tell its bytes"
    assert row["attainable_pct"] is None


@on_some_traces
def test_all_compute_has_a_row(answered: Answered, path: Path) -> None:
    ask = answered(path)
    (total,) = ask.trace.sql(
        "SELECT coalesce(sum(dur_ns), 0)::BIGINT FROM device_events WHERE kind = 'compute'"
    ).rows
    assert sum(ask("compute_memory").column("kernel_ns")) == total[0]


def step(number: int, start: float, end: float) -> Event:
    return span("user_annotation", f"ProfilerStep#{number}", start, end)


SHAPES = [[1000, 1000], [1000, 500]]
GEMM = {"kernel": "sm80_xmma_gemm_bf16"}


ONE_STEP = CASES.add(
    [
        step(1, 0, 100),
        span("user_annotation", "tk/module/forward/model.layers.0#Block", 0, 40),
        *op("aten::mm", SHAPES, start=5, end=20, **GEMM),
        span("user_annotation", "tk/module/recompute/model.layers.0#Block", 50, 90),
        *op("aten::mm", SHAPES, start=55, end=105, **GEMM),
    ]
)


def test_utilisation_of_a_step_on_paper(asked: AskedByRank) -> None:
    """1e9 operations each in forward and in recomputation, in a step of 100 µs: 3.2 and 6.4 %."""
    phases = {row["phase"] for row in asked.rows(ONE_STEP, "phases")}
    (row,) = asked.rows(ONE_STEP, "mfu")
    assert "recompute" in phases
    assert (row["step"], row["step_ns"], row["flops"]) == (1, 100_000, 2 * 10**9)
    assert (row["recompute_flops"], row["dtype"], row["covered_pct"]) == (10**9, "bf16", 100.0)
    assert row["hfu_pct"] == pytest.approx(100 * 2e9 / 312e12 / 100e-6)
    assert row["mfu_pct"] == pytest.approx(row["hfu_pct"] / 2)
    assert row["reason"] is None


KNOWN = op("aten::mm", [[10, 10], [10, 10]], end=10, **GEMM)
PARTLY_KNOWN = CASES.add([*KNOWN, *op("my::gemm", [[10, 10]], start=20, end=25, **GEMM)])


def test_utilisation_is_refused_with_the_reason(
    asked: AskedByRank, tiny_trace: Callable[..., Path]
) -> None:
    (row,) = asked.rows(PARTLY_KNOWN, "mfu")
    (lenient,) = asked.rows(PARTLY_KNOWN, "mfu", min_covered_pct=60)
    assert row["covered_pct"] == pytest.approx(100 * 10 / 15)
    assert (row["step"], row["mfu_pct"]) == (None, None)
    # What is known is a bound, and what is missing has a name.
    assert row["at_least_mfu_pct"] == pytest.approx(100 * 2000 / 312e12 / 25e-6)
    assert row["unknown_ops"] == "my::gemm 33.3 %"
    assert lenient["at_least_mfu_pct"] is None
    assert row["reason"] == "the operations are known for too little of the time of such kernels"
    assert lenient["mfu_pct"] == pytest.approx(100 * 2000 / 312e12 / 25e-6)
    with tracekit.open(tiny_trace(KNOWN), cache=False) as trace:
        (row,) = trace.query("mfu").to_dicts()
    assert row["reason"] == "the peak of this device is not known"
