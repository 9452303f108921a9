"""Analyses gemms, gemm_share and memcpy_steps."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import AskedByRank, Cases
from traces_by_hand import Event, span

import tracekit

Opened = Callable[[Path], tracekit.Trace]

BF16 = "c10::BFloat16"
H100 = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000}]


def op(
    name: str,
    dims: list[Any],
    start: float,
    end: float,
    correlation: int,
    dtype: str = BF16,
    kernel: str = "sm90_xmma_gemm_bf16",
    values: list[str] | None = None,
) -> list[Event]:
    """An op at `start` with shapes, and its kernel from `start` to `end` on the device."""
    types = [dtype if dim else "" for dim in dims]
    args: dict[str, Any] = {"Input Dims": dims, "Input type": types}
    if values is not None:
        args["Concrete Inputs"] = values
    link = {"correlation": correlation, "device": 0, "stream": 7}
    return [
        span("cpu_op", name, start, start + 3, **args),
        span("cuda_runtime", "cudaLaunchKernel", start + 1, start + 2, correlation=correlation),
        span("kernel", kernel, start, end, 7, **link) | {"pid": 0},
    ]


# An op, the sizes of what it is given, and m, n, k and the batch that follow.
SIZES: list[tuple[str, list[Any], tuple[int, ...]]] = [
    ("aten::mm", [[64, 32], [32, 16]], (64, 16, 32, 1)),
    ("aten::addmm", [[16], [64, 32], [32, 16], [], []], (64, 16, 32, 1)),
    ("aten::bmm", [[8, 64, 32], [8, 32, 16]], (64, 16, 32, 8)),
    ("aten::baddbmm", [[8, 64, 16], [8, 64, 32], [8, 32, 16], [], []], (64, 16, 32, 8)),
    ("aten::linear", [[2, 64, 32], [16, 32], [16]], (128, 16, 32, 1)),
    ("aten::matmul", [[2, 64, 32], [32, 16]], (128, 16, 32, 1)),
    ("aten::matmul", [[3, 2, 64, 32], [3, 2, 32, 16]], (64, 16, 32, 6)),
    ("aten::matmul", [[64, 32], [32]], (64, 1, 32, 1)),
    ("aten::_scaled_mm", [[64, 32], [32, 16], [], []], (64, 16, 32, 1)),
    ("aten::_grouped_mm", [[64, 32], [4, 32, 16], [4]], (64, 16, 32, 1)),
    ("_C::cutlass_scaled_mm", [[64, 16], [64, 32], [32, 16], [], []], (64, 16, 32, 1)),
    ("aiter::gemm_a16w16", [[64, 32], [16, 32]], (64, 16, 32, 1)),
    ("aiter::gemm_a8w8_ck", [[64, 32], [16, 32], [64, 1], [16, 1], [64, 16]], (64, 16, 32, 1)),
]


ON_H100 = Cases()
asked_on_h100 = ON_H100.fixture(deviceProperties=H100)
CASES = Cases()
asked = CASES.fixture()

SIZED = [(ON_H100.add(op(name, dims, 0, 10, 1)), expected) for name, dims, expected in SIZES]


@pytest.mark.parametrize(("rank", "expected"), SIZED, ids=[name for name, *_ in SIZES])
def test_sizes_follow_from_shapes(
    asked_on_h100: AskedByRank, rank: int, expected: tuple[int, ...]
) -> None:
    (row,) = asked_on_h100.rows(rank, "gemms")
    assert tuple(row[column] for column in ("m", "n", "k", "batch")) == expected
    m, n, k, batch = expected
    assert row["flops"] == 2 * m * n * k * batch
    assert row["flop_per_s"] == pytest.approx(row["flops"] / 10e-6)
    assert row["peak_flop_per_s"] == 989.5e12
    assert row["peak_pct"] == pytest.approx(100 * row["flops"] / 10e-6 / 989.5e12)
    assert row["reason"] is None


WITHOUT_SIZE = ON_H100.add(
    [
        *op("aten::mm", [[4, 3], [5, 6]], 0, 10, 1),
        *op("my::fused_mlp", [[4, 3]], 20, 35, 2),
        # One whose shapes were not recorded.
        op("aten::mm", [], 40, 60, 3)[0] | {"args": {}},
        *op("aten::mm", [], 40, 60, 3)[1:],
        *op("aten::mm", [[4, 3], [3, 6]], 70, 100, 4)[2:],
        span("cuda_runtime", "cudaLaunchKernel", 110, 111, correlation=5),
        span("kernel", "sm90_xmma_gemm_bf16", 120, 121, 7, correlation=5, device=0, stream=7),
    ]
)


def test_what_has_no_size_says_why(asked_on_h100: AskedByRank) -> None:
    rows = asked_on_h100.rows(WITHOUT_SIZE, "gemms")
    assert {row["reason"]: (row["kernel_ns"], row["m"], row["flops"]) for row in rows} == {
        "its launch was not recorded": (30_000, None, None),
        "its shapes were not recorded": (20_000, None, None),
        "its operations are not known": (15_000, None, None),
        "its shapes do not tell its operations": (10_000, None, None),
        "its launch is in no op": (1_000, None, None),
    }


PRODUCT = op("aten::mm", [[4, 3], [3, 6]], 0, 10, 1)
ON_UNKNOWN = CASES.add(PRODUCT)
ON_CPU = CASES.add([span("cpu_op", "aten::mm", 0, 10, **PRODUCT[0]["args"])])


def test_peaks_that_are_not_known_say_why(asked: AskedByRank) -> None:
    (row,) = asked.rows(ON_UNKNOWN, "gemms")
    assert (row["flops"], row["peak_pct"]) == (144, None)
    assert row["reason"] == "the peak of this device is not known"
    (row,) = asked.rows(ON_CPU, "gemms")
    assert (row["flops"], row["reason"]) == (144, "the peak of a CPU is not known")


TF32 = "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n"
IN_FP32 = ON_H100.add(
    [
        *op("aten::mm", [[4, 3], [3, 6]], 0, 10, 1, "float", TF32),
        *op("aten::mm", [[4, 3], [3, 6]], 20, 25, 2, "float", "ampere_sgemm_128x64_nn"),
    ]
)


def test_fp32_on_a_tf32_kernel_is_measured_against_tf32(asked_on_h100: AskedByRank) -> None:
    rows = asked_on_h100.rows(IN_FP32, "gemms")
    assert [(row["dtype"], row["peak_type"], row["peak_flop_per_s"]) for row in rows] == [
        ("fp32", "tf32", 494.5e12),
        ("fp32", "fp32", 67e12),
    ]


def cpu_op(name: str, dims: list[Any], start: float, end: float) -> Event:
    types = ["float"] * len(dims)
    return span("cpu_op", name, start, end, **{"Input Dims": dims, "Input type": types})


OF_OTHER_OPS = CASES.add(
    [
        cpu_op("aten::linear", [[4, 3], [6, 3], [6]], 0, 100),
        cpu_op("aten::addmm", [[6], [4, 3], [3, 6]], 10, 90),
        cpu_op("aten::copy_", [[4, 6], [4, 6]], 20, 30),
    ]
)


def test_an_op_of_other_ops_counts_once(asked: AskedByRank) -> None:
    """On cpu aten::linear, its aten::addmm and the copy of the bias all have time of their own."""
    rows = asked.rows(OF_OTHER_OPS, "gemms")
    assert [(row["op_name"], row["flops"], row["kernel_ns"]) for row in rows] == [
        ("aten::addmm", 144, 70_000),
        ("aten::linear", None, 20_000),
    ]
    assert rows[1]["reason"] == "it is made of other ops"


IN_MODULES = ON_H100.add(
    [
        span("python_function", "nn.Module: Up_0", 0, 9),
        span("python_function", "nn.Module: Down_0", 10, 29),
        *op("aten::mm", [[64, 32], [32, 16]], 0, 9, 1),
        *op("aten::mm", [[64, 32], [32, 16]], 10, 13, 2),
        *op("aten::mm", [[64, 32], [32, 16]], 20, 24, 3),
        *op("aten::mm", [[64, 32], [32, 16]], 30, 31, 4),
    ]
)


def test_products_by_module(asked_on_h100: AskedByRank) -> None:
    (whole,) = asked_on_h100.rows(IN_MODULES, "gemms")
    assert (whole["module_path"], whole["call_count"], whole["kernel_ns"]) == (None, 4, 17_000)
    rows = asked_on_h100.rows(IN_MODULES, "gemms", by_module=True)
    assert [(row["module_path"], row["call_count"], row["kernel_ns"]) for row in rows] == [
        ("Up", 1, 9_000),
        ("Down", 2, 7_000),
        (None, 1, 1_000),
    ]


def test_products_of_a_model_against_the_file(public_traces: Path, opened: Opened) -> None:
    """Every product of an H100 trace, its operations and its time, from the JSON again."""
    path = public_traces / "tl_h100_owlv2_large.json.gz"
    with gzip.open(path) as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    ops = {}
    kernels: dict[int, int] = defaultdict(int)
    for event in events:
        args = event.get("args", {})
        if event.get("cat") == "cpu_op" and event["name"] in (
            "aten::mm",
            "aten::addmm",
            "aten::bmm",
        ):
            ops[args["External id"]] = (event["name"], args["Input Dims"])
        # The library clears its workspace first: that is the product's time, too.
        if event.get("cat") in ("kernel", "gpu_memset"):
            kernels[args["External id"]] += int(event["dur"] * 1000)
    expected: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    for external_id, (name, dims) in ops.items():
        a, b = dims[1:3] if name == "aten::addmm" else dims[:2]
        size = (a[-2], b[-1], a[-1], a[0] if name == "aten::bmm" else 1)
        expected[name, *size][0] += 1
        expected[name, *size][1] += kernels[external_id]
    found = {}
    for row in opened(path).query("gemms", limit=0).to_dicts():
        assert row["reason"] is None
        key = tuple(row[column] for column in ("op_name", "m", "n", "k", "batch"))
        count, kernel_ns = found.get(key, (0, 0))
        found[key] = [count + row["call_count"], kernel_ns + row["kernel_ns"]]
    assert found == expected


IN_PHASES = CASES.add(
    [
        span("user_annotation", "tk/phase/forward", 0, 50),
        *op("aten::mm", [[4, 3], [3, 6]], 0, 30, 1),
        *op("aten::mul", [[4, 3], [4, 3]], 40, 50, 2, kernel="vectorized_elementwise_kernel<4>"),
        span("user_annotation", "tk/phase/backward", 60, 100),
        *op("aten::mm", [[4, 3], [3, 6]], 60, 100, 3),
    ]
)


def test_share_of_each_phase_on_paper(asked: AskedByRank) -> None:
    rows = asked.rows(IN_PHASES, "gemm_share")
    columns = ("phase", "gemm_count", "gemm_kernel_ns", "kernel_ns", "gemm_pct", "gemm_wall_pct")
    assert [tuple(row[column] for column in columns) for row in rows] == [
        ("backward", 1, 40_000, 40_000, 100.0, 100.0),
        ("forward", 1, 30_000, 40_000, 75.0, 75.0),
        ("(all)", 2, 70_000, 80_000, 87.5, 87.5),
    ]


def copies_in_steps() -> list[Event]:
    """Steps of 100 µs (to when the next one begins) and 70 µs: 40 µs to the device, 20 back."""
    events = [
        span("user_annotation", "ProfilerStep#1", 0, 100),
        span("user_annotation", "ProfilerStep#2", 100, 200),
    ]
    copies = [
        (0, 10, "HtoD", 1000),
        (110, 140, "HtoD", 3000),
        (150, 170, "DtoH", 500),
        (220, 229, "DtoH", 1),
    ]
    for number, (start, end, way, size) in enumerate(copies, 1):
        link = {"correlation": number, "device": 0, "stream": 7, "bytes": size}
        name = f"Memcpy {way} (Pinned -> Device)"
        events += [
            span("cuda_runtime", "cudaMemcpyAsync", start, start + 1, correlation=number),
            span("gpu_memcpy", name, start, end, 7, **link) | {"pid": 0},
        ]
    return events


COPIES = CASES.add(copies_in_steps())


def test_copies_per_step_on_paper(asked: AskedByRank) -> None:
    rows = asked.rows(COPIES, "memcpy_steps")
    columns = ("direction", "step_count", "copy_count", "step_kernel_ns", "step_bytes", "step_pct")
    assert [tuple(row[column] for column in columns) for row in rows] == [
        ("memcpy_h2d", 2, 2, 20_000.0, 2000.0, 100 * 40 / 170),
        ("memcpy_d2h", 2, 1, 10_000.0, 250.0, 100 * 20 / 170),
        ("(all)", 2, 3, 30_000.0, 2250.0, 100 * 60 / 170),
    ]
