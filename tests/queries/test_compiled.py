"""Work inside of regions that torch.compile compiled, by graph and file of generated code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import AskedByRank, Cases

import tracekit

Write = Callable[..., Path]
MAIN, ENGINE = 1, 2


def span(category: str, name: str, start: float, end: float, tid: int = MAIN, **args: Any) -> Any:
    shown = {"ph": "X", "cat": category, "name": name, "pid": 100, "tid": tid}
    return {**shown, "ts": start, "dur": end - start, "args": args}


def work(at: float, number: int, name: str, tid: int = MAIN) -> list[dict[str, Any]]:
    args = {"device": 0, "stream": 7, "correlation": number}
    return [
        span("cuda_runtime", "cudaLaunchKernel", at, at + 1, tid, correlation=number),
        span("kernel", name, at + 2, at + 4, 7, **args) | {"pid": 0},
    ]


def forward(start: float, end: float, sequence: int) -> dict[str, Any]:
    args = {"Sequence number": sequence, "Fwd thread id": 0}
    return span("cpu_op", "CompiledFunction", start, end, **args)


def backward(start: float, end: float, sequence: int) -> list[dict[str, Any]]:
    args = {"Sequence number": sequence, "Fwd thread id": 1}
    name = "CompiledFunctionBackward"
    return [
        span("cpu_op", f"autograd::engine::evaluate_function: {name}", start, end, ENGINE, **args),
        span("cpu_op", name, start, end, ENGINE, **args),
    ]


FILE = "/tmp/torchinductor_me/ab/cabc.py"
GEMM, FUSED, SUM = "ampere_sgemm_128x64_tn", "triton_poi_fused_relu_0", "reduce_kernel<512>"

# One graph calls another one at a graph break; the loss is outside of both; then both backward.
EVENTS = [
    span("cpu_op", "Torch-Compiled Region: 0/0", 0, 50),
    forward(2, 20, 1),
    *work(4, 1, GEMM),
    span("cpu_op", FUSED, 10, 15, kernel_file=FILE),
    *work(11, 2, FUSED),
    span("cpu_op", "Torch-Compiled Region: 1/2", 25, 45),
    forward(26, 40, 2),
    *work(30, 3, GEMM),
    *work(60, 4, SUM),
    *backward(70, 80, 2),
    *work(72, 5, GEMM, ENGINE),
    *backward(80, 90, 1),
    *work(82, 6, GEMM, ENGINE),
]


@pytest.fixture
def trace(tiny_trace: Write) -> Iterator[tracekit.Trace]:
    with tracekit.open(tiny_trace(EVENTS, distributedInfo={"rank": 0}), cache=False) as trace:
        yield trace


def test_by_graph_and_file(trace: tracekit.Trace) -> None:
    """A backward pass is of the graph of its forward pass; the innermost region counts."""
    outer, inner = "Torch-Compiled Region: 0/0", "Torch-Compiled Region: 1/2"
    inner_path = f"{outer}/{inner}"
    found = trace.query("compiled")
    assert found.column_names == (
        "rank", "device", "pass", "graph", "phase", "module_path", "name", "class", "kernel_file",
        "region_count", "kernel_count", "kernel_ns", "wall_ns", "wall_pct",
    )  # fmt: skip
    assert [row[2:11] for row in found.rows] == [
        ("backward", "0/0", "backward", outer, GEMM, "gemm", None, 1, 1),
        ("backward", "1/2", "backward", inner_path, GEMM, "gemm", None, 1, 1),
        ("forward", "0/0", "forward", outer, GEMM, "gemm", None, 1, 1),
        ("forward", "0/0", "forward", outer, FUSED, "triton_fused", FILE, 1, 1),
        ("forward", "1/2", "forward", inner_path, GEMM, "gemm", None, 1, 1),
        (None, None, "forward", None, None, None, None, 0, 1),
    ]
    assert sum(found.column("wall_ns")) == trace.query("timeline").to_dicts()[0]["busy_ns"]
    assert trace.query("compiled", limit=2).rows == found.rows[:2]


CASES = Cases()
asked = CASES.fixture()


def region(at: float, graph: str) -> list[dict[str, Any]]:
    """A region whose forward pass has the number 7, and its backward pass."""
    return [
        span("cpu_op", f"Torch-Compiled Region: {graph}", at, at + 20),
        forward(at + 1, at + 19, 7),
        *backward(at + 30, at + 40, 7),
        *work(at + 32, at + 1, GEMM, ENGINE),
    ]


SAME_NUMBERS = CASES.add([*region(0, "0/0"), *region(100, "5/1")])


def test_sequence_numbers_begin_again(asked: AskedByRank) -> None:
    """The forward pass of a backward pass is the last one of its number before it."""
    rows = asked.rows(SAME_NUMBERS, "compiled")
    assert [(row["pass"], row["graph"]) for row in rows] == [
        ("backward", "0/0"),
        ("backward", "5/1"),
    ]


WITHOUT_REGION = CASES.add(
    [forward(0, 10, 1), *work(2, 1, GEMM), *backward(20, 30, 1), *work(22, 2, GEMM, 2)]
)


def test_what_no_region_is_around(asked: AskedByRank) -> None:
    """Old versions name no region: what is compiled is known, of which graph is not."""
    rows = asked.rows(WITHOUT_REGION, "compiled")
    assert [(row["pass"], row["graph"]) for row in rows] == [("backward", None), ("forward", None)]


WITHOUT_TRAINING = CASES.add(
    [
        span("cpu_op", "Torch-Compiled Region: 0/0", 0, 20),
        span("user_annotation", "## Call CompiledFxGraph fabc ##", 1, 19),
        *work(5, 1, GEMM),
    ]
)


def test_a_compiled_model_without_training_is_a_forward_pass(asked: AskedByRank) -> None:
    assert [row["phase"] for row in asked.rows(WITHOUT_TRAINING, "phases")] == ["forward"]
    path = "Torch-Compiled Region: 0/0/## Call CompiledFxGraph fabc ##"
    assert asked.rows(WITHOUT_TRAINING, "modules")[-1]["module_path"] == path


NOT_COMPILED = CASES.add(work(0, 1, GEMM))


def test_without_compiled_regions_there_is_nothing(asked: AskedByRank) -> None:
    assert asked.rows(NOT_COMPILED, "compiled") == []
