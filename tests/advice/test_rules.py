"""What each rule sees in a trace of a few events, and what it asks for."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_result import CliResult
from every_trace import SAMPLES
from traces_by_hand import call, kernel, span, work

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.prediction.advising import COLUMNS

Tiny = Callable[..., Path]

H2D, D2H = "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)"
H100 = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}]
_EVIDENCE = re.compile(r"'(tracekit (?:[^']|'')*)'")
SERVED = next(one for one in SAMPLES if one.name == "serve_transformers")
RULES = [one.name for one in load_catalog().analyses.titles() if one.subject == "advice"]


def said(path: Path, rule: str) -> list[dict[str, Any]]:
    with tracekit.open(path, cache=False) as trace:
        return trace.query(f"advice_{rule}").to_dicts()


def changes(path: Path, rule: str) -> list[tuple[str, int | None]]:
    return [(row["change"], row["cost_ns"]) for row in said(path, rule)]


def test_a_rule_has_the_columns_of_one() -> None:
    for rule in RULES:
        assert load_catalog().analysis(rule).column_names == COLUMNS, rule


def test_a_kernel_alone_is_nothing_to_change(tiny_trace: Tiny) -> None:
    path = tiny_trace([*work(0, 5, 100, 1), *work(10, 100, 200, 2)])
    with tracekit.open(path, cache=False) as trace:
        for rule in RULES:
            if rule != "advice_serving_queue":
                assert trace.query(rule).to_dicts() == [], rule


def test_what_shows_the_evidence_is_a_command(cli: Callable[..., CliResult]) -> None:
    """Of every rule, whatever its SQL says of it: a command that is not there helps nobody."""
    commands = set()
    for rule in RULES:
        text = load_catalog().analysis(rule).sql
        commands |= {one.replace("''", "'") for one in _EVIDENCE.findall(text)}
    assert len(commands) > 10
    for command in sorted(commands):
        words = shlex.split(command.replace("TRACE", str(SERVED)))
        answer = cli(*words[1:])
        assert answer.exit_code == 0, (command, answer.stderr)


def test_waits_by_op_and_by_call(tiny_trace: Tiny) -> None:
    events = [
        *work(0, 5, 100, 1),
        span("cpu_op", "aten::item", 10, 120),
        span("cpu_op", "aten::_local_scalar_dense", 11, 119),
        call(12, 13, 2, "cudaMemcpyAsync"),
        kernel(D2H, 100, 102, 2),
        call(14, 110, 3, "cudaStreamSynchronize"),
        *work(130, 135, 200, 4),
        call(140, 202, 5, "cudaDeviceSynchronize"),
        *work(205, 210, 220, 6),
        # Nothing comes after this one.
        call(212, 230, 7, "cudaStreamSynchronize"),
    ]
    assert changes(tiny_trace(events), "sync") == [
        ("sync op=aten::_local_scalar_dense remove", 96_000),
        ("sync name=cudaDeviceSynchronize remove", 62_000),
    ]


def test_copies_from_pageable_memory(tiny_trace: Tiny) -> None:
    events = [
        call(0, 30, 1, "cudaMemcpyAsync"),
        kernel(H2D, 20, 40, 1, bytes=1000),
        *work(50, 55, 100, 2),
    ]
    (row,) = said(tiny_trace(events), "copies")
    assert row["change"] == "class=memcpy_h2d remove"
    assert row["cost_ns"] == 30_000 + 20_000
    assert "1 copies to the device, 1 from pageable memory, of 1,000 bytes" in row["what"]


def test_allocator_behind_the_first_step(tiny_trace: Tiny) -> None:
    events = [
        span("user_annotation", "ProfilerStep#0", 0, 100),
        call(10, 60, 1, "cudaMalloc"),
        *work(70, 75, 90, 2),
        span("user_annotation", "ProfilerStep#1", 100, 200),
        call(110, 150, 3, "cudaMalloc"),
        call(150, 155, 4, "cudaFree"),
        *work(170, 175, 190, 5),
    ]
    assert changes(tiny_trace(events), "allocator") == [
        ("call=cudaFree remove; call=cudaMalloc remove", 45_000)
    ]


def test_a_loader_and_its_workers(tiny_trace: Tiny) -> None:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    step = [
        span("user_annotation", name, 0, 60),
        span("python_function", "torch/utils/data/dataloader.py(701): __next__", 1, 59),
        *work(61, 65, 100, 1),
    ]
    # 60 of 100 µs: two workers make a batch in the other 40, and one more for luck.
    assert changes(tiny_trace(step), "loading") == [("loading workers=3", 60_000)]
    step[0] = span("user_annotation", name.replace("Single", "Multi") + "_MultiProcessing", 0, 60)
    step[0]["name"] = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    assert changes(tiny_trace(step), "loading") == [("loading remove", 60_000)]


def test_a_python_call_without_launches(tiny_trace: Tiny) -> None:
    events = [
        *work(0, 5, 20, 1),
        span("python_function", "train.py(1): main", 0, 200),
        span("python_function", "log.py(7): write [all]", 30, 130),
        *work(140, 145, 160, 2),
    ]
    # The gap is from 20 to 145: main has launches in it, and is no leaf.
    assert changes(tiny_trace(events), "python") == [
        ("range=log.py(7):?write??all? remove", 100_000)
    ]
    # Perhaps the device worked there: the kernel of a launch before the call is not recorded.
    assert changes(tiny_trace([*events, call(22, 25, 9)]), "python") == []


def test_launches_that_come_late(tiny_trace: Tiny) -> None:
    events = [span("user_annotation", "tk/phase/forward", 0, 200)]
    for start in (0, 40, 80, 120):
        events += [span("cpu_op", "aten::add", start, start + 39)]
        events += work(start + 30, start + 35, start + 40, start + 1)
    (row,) = said(tiny_trace(events), "launch_bound")
    assert row["change"] == "host phase=forward x0.1"
    assert row["at_most"] == "host phase=forward remove"
    assert row["cost_ns"] == 3 * 35_000


@pytest.mark.parametrize("optimizer", ["AdamW", "Shampoo"])
def test_a_single_tensor_optimizer(tiny_trace: Tiny, optimizer: str) -> None:
    events = [span("user_annotation", f"Optimizer.step#{optimizer}.step", 0, 2_000)]
    for number in range(30):
        name = ("aten::mul_", "aten::lerp_", "aten::addcdiv_")[number % 3]
        events.append(span("cpu_op", name, 10 + 50 * number, 20 + 50 * number))
        events += work(12 + 50 * number, 14 + 50 * number, 24 + 50 * number, number + 1)
    rows = said(tiny_trace(events), "optimizer")
    if optimizer == "Shampoo":
        assert not rows
        return
    (row,) = rows
    assert row["change"] == "module=(optimizer) x0.550; range=Optimizer.step#* x0.100"
    assert row["place"] == "optimizer by single ops"


def test_gradients_set_to_zero(tiny_trace: Tiny) -> None:
    events = [
        span("user_annotation", "Optimizer.zero_grad#SGD.zero_grad", 0, 50),
        span("cpu_op", "aten::zero_", 2, 20),
        *work(5, 10, 30, 1),
        *work(60, 70, 90, 2),
    ]
    assert changes(tiny_trace(events), "zero_grad") == [
        ("range=Optimizer.zero_grad#* remove", 20_000)
    ]


def test_layouts_that_are_converted(tiny_trace: Tiny) -> None:
    events = [
        *work(0, 5, 15, 1, "void cudnn::ops::nchwToNhwcKernel<float>"),
        *work(10, 20, 25, 2, "void cudnn::ops::nhwcToNchwKernel<float>"),
        *work(20, 30, 90, 3, "k"),
        *work(21, 90, 93, 4, "batched_transpose_16x32_half"),
        *work(22, 93, 95, 5, "batched_transpose_32x16_half"),
    ]
    changed = "name=*batched_transpose* remove; name=*nchwToNhwc* remove; name=*nhwcToNchw* remove"
    assert changes(tiny_trace(events), "layout") == [(changed, 20_000)]


def test_products_of_doubles(tiny_trace: Tiny) -> None:
    types = {"Input type": ["double", "double"], "Input Dims": [[8, 8], [8, 8]]}
    events = [
        span("cpu_op", "aten::mm", 0, 10, **types),
        *work(2, 10, 50, 1, "dgemm_kernel"),
        span("cpu_op", "aten::mm", 20, 30, **{"Input type": ["float", "float"]}),
        *work(22, 50, 70, 2, "sgemm_kernel"),
    ]
    # Of floats nothing is said where no peak of the device is known.
    assert changes(tiny_trace(events), "precision") == [("class=gemm op=aten::mm x0.5", 40_000)]


def test_products_whose_sides_are_no_multiples_of_eight(tiny_trace: Tiny) -> None:
    def product(number: int, n: int, end: int, kernel_name: str) -> list[Any]:
        start = 100 * number
        named = {
            "Input type": ["c10::BFloat16", "c10::BFloat16"],
            "Input Dims": [[64, 64], [64, n]],
        }
        return [
            span("cpu_op", "aten::mm", start, start + 10, **named),
            *work(start + 2, start + 10, start + 10 + end, number + 1, kernel_name),
        ]

    suited = [one for number in range(3) for one in product(number, 64, 16, "align8_gemm")]
    path = tiny_trace([*suited, *product(3, 63, 80, "align1_gemm")], deviceProperties=H100)
    # 64 columns in 16 µs: padded, the last would take that instead of 80.
    (row,) = said(path, "shapes")
    assert row["change"] == "class=gemm op=aten::mm name=align1_gemm x0.200"
    assert row["cost_ns"] == 64_000
    assert "such as 64 x 63 x 64 (M x N x K)" in row["what"]
    # As fast as the others, it is left alone; and so where there are no others.
    path = tiny_trace([*suited, *product(3, 63, 15, "align1_gemm")], deviceProperties=H100)
    assert said(path, "shapes") == []
    path = tiny_trace(product(3, 63, 80, "align1_gemm"), deviceProperties=H100)
    assert said(path, "shapes") == []


def test_transfers_far_below_what_was_measured(
    tiny_trace: Tiny, make_bench: Callable[..., Path]
) -> None:
    point = {
        "family": "collective",
        "op": "all_reduce",
        "backend": "nccl",
        "group_size": 2,
        "message_bytes": 1 << 20,
        "median_ns": 10_000.0,
        "device": "cuda:0",
        "device_name": "NVIDIA H100 80GB HBM3",
        "unit_count": 132,
        "thread_count": 8,
    }
    arguments = {
        "Collective name": "allreduce",
        "In msg nelems": 1 << 19,
        "Out msg nelems": 1 << 19,
        "dtype": "BFloat16",
        "Group size": 2,
    }
    name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"
    bench = make_bench("b", [point])
    for took, expected in ((40, [("class=comm_allreduce x0.250", 40_000)]), (15, [])):
        events = [call(0, 5, 1), kernel(name, 10, 10 + took, 1, **arguments)]
        path = tiny_trace(events, deviceProperties=H100)
        with tracekit.open(path, cache=False, ceilings=bench) as trace:
            rows = trace.query("advice_bandwidth").to_dicts()
        assert [(row["change"], row["cost_ns"]) for row in rows] == expected


def test_recomputation_and_the_memory_that_is_left(tiny_trace: Tiny) -> None:
    again = span("user_annotation", "tk/phase/recompute", 0, 50)
    again["name"] = "tk/module/recompute/mlp#MLP"
    memory = {"ph": "i", "s": "t", "name": "[memory]", "cat": "cpu_instant_event", "pid": 1}
    memory |= {"tid": 1, "ts": 30, "args": {"Addr": 1, "Bytes": 1024, "Device Type": 1}}
    memory["args"] |= {"Device Id": 0, "Total Allocated": 1 << 30, "Total Reserved": 2 << 30}
    whole = [H100[0] | {"totalGlobalMem": 80 << 30}]
    events = [again, *work(5, 10, 40, 1), memory]
    (row,) = said(tiny_trace(events, deviceProperties=whole), "recompute")
    assert row["what"] == (
        "0.030 ms of work is recomputation; the allocator keeps 2.0 of 80.0 GiB at most"
    )
    (row,) = said(tiny_trace(events[:-1], deviceProperties=whole), "recompute")
    assert row["what"] == "0.030 ms of work is recomputation"
    assert row["remedy"].endswith("profile_memory=True records what is left")
    assert row["at_most"] is None
    hook = span("python_function", "torch/utils/checkpoint.py(1165): unpack_hook", 0, 50)
    (row,) = said(tiny_trace([*events[:-1], hook], deviceProperties=whole), "recompute")
    assert row["at_most"] == (
        f"{row['change']}; range=torch/utils/checkpoint.py(1165):?unpack_hook remove"
    )


def test_threads_of_communication_share_the_cores_of_a_cpu(tiny_trace: Tiny) -> None:
    sizes = {"Input Dims": [[4]], "Input type": ["float"]}
    events = [
        *(span("user_annotation", f"ProfilerStep#{number}", at, at + 100)
          for number, at in enumerate((0, 100))),
        *(span("user_annotation", "gloo:all_reduce", at, at + 5, tid=9, **sizes)
          for at in range(10, 200, 9)),
    ]  # fmt: skip
    (row,) = said(tiny_trace(events), "small_messages")
    assert row["change"] == "class=comm_allreduce x0.1"
    assert row["at_most"].startswith("class=comm_allreduce remove; kind=compute phase=")


def _memory(at: float, address: int, gib: int, used: int, kept: int) -> dict[str, Any]:
    """Return an event of the allocator, in GiB."""
    args = {"Addr": address, "Bytes": gib << 30, "Device Type": 1, "Device Id": 0}
    args |= {"Total Allocated": used << 30, "Total Reserved": kept << 30}
    event = {"ph": "i", "s": "t", "name": "[memory]", "cat": "cpu_instant_event", "pid": 1}
    return event | {"tid": 1, "ts": at, "args": args}


@pytest.mark.parametrize(
    ("kept", "change"),
    [
        # Two layers make 4 GiB each again, of which one is there at the peak.
        (40, "phase=recompute remove; host phase=recompute remove"),
        (74, "phase=recompute x0.50; host phase=recompute x0.50"),
        (76, None),
    ],
)
def test_as_many_layers_as_the_memory_is_there_for(
    tiny_trace: Tiny, kept: int, change: str | None
) -> None:
    events = []
    for number, start in enumerate((0, 100)):
        events += [
            span("user_annotation", "tk/module/recompute/mlp#MLP", start, start + 30),
            *work(start + 2, start + 5, start + 30, 2 * number + 1),
            _memory(start + 3, 100 + number, 4, 34, kept),
            # Gone before the pass is over, it is needed for neither.
            _memory(start + 4, 200, 9, 33, kept),
            _memory(start + 6, 200, -9, 34, kept),
            span("user_annotation", "tk/phase/backward", start + 40, start + 90),
            *work(start + 42, start + 45, start + 80, 2 * number + 2),
            _memory(start + 60, 100 + number, -4, 30, kept),
        ]
    whole = [H100[0] | {"totalGlobalMem": 80 << 30}]
    rows = said(tiny_trace(events, deviceProperties=whole), "recompute")
    assert [row["change"] for row in rows] == [change] * bool(change)


@pytest.mark.parametrize(("kept", "expected"), [(72, ["memory in fragments"]), (34, [])])
def test_memory_that_lies_in_fragments(tiny_trace: Tiny, kept: int, expected: list[str]) -> None:
    whole = [H100[0] | {"totalGlobalMem": 80 << 30}]
    events = [*work(0, 5, 20, 1), _memory(1, 1, 30, 30, kept), _memory(2, 2, 2, 32, kept)]
    rows = said(tiny_trace(events, deviceProperties=whole), "allocator")
    assert [row["place"] for row in rows] == expected
    if rows:
        assert rows[0]["what"].startswith(
            "of 80.0 GiB memory the allocator keeps 72.0, and 40.0 of these lie unused"
        )


@pytest.mark.parametrize(
    ("after", "backward", "change"),
    [
        ("aten::batch_norm", False, "op=aten::add_ name=add_kernel x0.167"),
        (
            "aten::batch_norm", True,
            "op=aten::add_ name=add_kernel x0.167; op=aten::sum name=sum_kernel x0.000",
        ),
        ("aten::relu", True, None),
    ],
)  # fmt: skip
def test_a_bias_before_a_batch_norm(
    tiny_trace: Tiny, after: str, backward: bool, change: str | None
) -> None:
    events = [
        span("cpu_op", "aten::convolution", 0, 40),
        span("cpu_op", "aten::cudnn_convolution", 2, 20),
        *work(5, 10, 50, 1, "conv_kernel"),
        span("cpu_op", "aten::add_", 22, 30),
        *work(24, 50, 60, 2, "add_kernel"),
        # The norm counts its batches.
        span("cpu_op", "aten::add_", 41, 44),
        *work(42, 60, 62, 3, "add_kernel"),
        span("cpu_op", after, 45, 60),
        *work(47, 62, 80, 4, "norm_kernel"),
    ]
    if backward:
        events += [
            span("cpu_op", "aten::convolution_backward", 100, 140),
            span("cpu_op", "aten::sum", 120, 130),
            *work(122, 150, 156, 5, "sum_kernel"),
        ]
    rows = said(tiny_trace(events), "bias")
    assert [(row["change"], row["cost_ns"]) for row in rows] == [
        (change, 10_000 + 6_000 * backward)
    ] * bool(change)


def test_long_kernels_of_few_blocks(tiny_trace: Tiny) -> None:
    few = {"blocks per SM": 0.25}
    events = [
        *work(0, 5, 105, 1, "few", **few),
        *work(10, 110, 210, 2, "nearly", **{"blocks per SM": 0.9}),
        *work(20, 220, 225, 3, "short", **few),
    ]
    assert changes(tiny_trace(events), "occupancy") == [(None, 75_000)]
    assert said(tiny_trace(events[2:]), "occupancy") == []


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("<built-in function collect>", "the program collects garbage itself"),
        ("<built-in function sleep>", "no time.sleep() in the loop"),
        # An op as Python calls it, and torch's own way into a module.
        ("<built-in method empty of type object at 0x7f>", None),
        ("torch/nn/modules/module.py(1954): __getattr__", None),
    ],
)
def test_what_a_python_call_is_about(tiny_trace: Tiny, name: str, remedy: str | None) -> None:
    events = [
        *work(0, 5, 20, 1),
        span("python_function", "train.py(1): main", 0, 200),
        span("python_function", name, 30, 130),
        *work(140, 145, 160, 2),
    ]
    rows = said(tiny_trace(events), "python")
    assert [row["remedy"].startswith(remedy or "-") for row in rows] == [True] * bool(remedy)


def test_what_communication_can_be_hidden(tiny_trace: Tiny) -> None:
    def reduced(device: bool, kernel: str = "ncclDevKernel_AllReduce_Sum") -> list[dict[str, Any]]:
        phase = span("user_annotation", "tk/phase/backward", 0, 300)
        if device:
            events = [*work(0, 5, 100, 1), *work(50, 100, 200, 2, kernel)]
        else:
            events = [
                span("cpu_op", "aten::mm", 5, 100),
                span("cpu_op", "c10d::allreduce_", 100, 110),
                span("user_annotation", "gloo:all_reduce", 120, 200, tid=9),
            ]
        return said(tiny_trace([phase, *events]), "exposed_comm")

    (row,) = reduced(device=True)
    assert (row["change"], row["cost_ns"]) == ("overlap", 100_000)
    (row,) = reduced(device=True, kernel="ncclDevKernel_AllGather_RING_LL")
    assert (row["change"], row["cost_ns"]) == (None, 100_000)
    assert row["what"].endswith("and the backward pass needs what it brings")
    rows = reduced(device=False)
    assert [row["change"] for row in rows] == [None]
    assert rows[0]["what"].endswith("on a CPU that has to move the bytes, too")


def test_offloaded_activations(tiny_trace: Tiny) -> None:
    events = [
        span("user_annotation", "tk/phase/forward", 0, 100),
        call(0, 1, 1, "cudaMemcpyAsync"),
        kernel("Memcpy DtoH (Device -> Pinned)", 5, 25, 1, bytes=1 << 21),
        span("user_annotation", "tk/phase/backward", 100, 200),
        call(130, 131, 2, "cudaMemcpyAsync"),
        kernel("Memcpy HtoD (Pinned -> Device)", 135, 150, 2, bytes=1 << 21),
    ]
    assert changes(tiny_trace(events), "offload") == [
        ("class=memcpy_h2d phase=backward remove; class=memcpy_d2h phase=forward remove", 35_000)
    ]
    # A batch that comes, and a loss that goes, are no such thing.
    small = [one | {"args": one["args"] | {"bytes": 4}} for one in events]
    assert said(tiny_trace(small), "offload") == []


def test_an_offloaded_optimizer(tiny_trace: Tiny) -> None:
    events = [
        span("user_annotation", "Optimizer.step#Adam.step", 0, 100),
        call(0, 1, 1, "cudaMemcpyAsync"),
        kernel("Memcpy DtoH (Device -> Pinned)", 5, 25, 1),
        call(30, 31, 2, "cudaMemcpyAsync"),
        kernel("Memcpy HtoD (Pinned -> Device)", 35, 50, 2),
    ]
    assert changes(tiny_trace(events), "offload") == [
        (
            "class=memcpy_h2d phase=optimizer remove; class=memcpy_d2h phase=optimizer remove",
            35_000,
        )
    ]


def test_chains_of_short_kernels(tiny_trace: Tiny) -> None:
    events = [span("python_function", "nn.Module: MLP_0", 0, 100, **{"Python module id": 0})]
    for number, (start, end) in enumerate(((10, 20), (20, 50), (50, 60)), start=1):
        events.append(span("cpu_op", "aten::mul", 8 * number, 8 * number + 7))
        name = "reduce_kernel<512>" if number == 3 else "vectorized_elementwise_kernel<4>"
        events += work(8 * number + 1, start, end, number, f"void at::native::{name}")
    # Of 50 µs the longest, of 30, is left.
    (row,) = said(tiny_trace(events), "fusion")
    assert (row["cost_ns"], row["place"]) == (20_000, "most in MLP")
    assert "class=elementwise phase=forward x0.750" in row["change"]
    assert "class=reduction phase=forward x0.000" in row["change"]


def test_what_is_not_recorded(tiny_trace: Tiny) -> None:
    events = [*work(0, 5, 20, 1), span("cpu_op", "aten::add", 30, 200), *work(190, 195, 210, 2)]
    path = tiny_trace(events, distributedInfo={"rank": 0, "world_size": 4})
    assert [row["place"] for row in said(path, "record")] == ["between launches", "other ranks"]


def _sleeping(*slept: int, name: str = "") -> list[dict[str, Any]]:
    """Return steps of 10 ms and a sleep of so many ms each, 0.5 ms after their start."""
    events, start = [], 0
    for number, ms in enumerate(slept):
        end = start + 10_000 + 1000 * ms
        begun = start + 500 + 1000 * ms
        events += [
            span("user_annotation", f"ProfilerStep#{number}", start, end),
            span("cpu_op", "aten::zero_", start + 100, start + 500),
            *([span("user_annotation", name, start + 500, begun)] if name else []),
            span("cpu_op", "aten::embedding", begun, begun + 50),
            *work(begun + 60, begun + 70, end - 100, number + 1),
            call(begun + 100, end - 50, 100 + number, "cudaDeviceSynchronize"),
        ]
        start = end
    return events


def test_a_pause_in_steps_has_its_place(tiny_trace: Tiny) -> None:
    path = tiny_trace(_sleeping(30, 30, 0, 30))
    (row,) = said(path, "pauses")
    assert row["what"] == (
        "no thread of the host has an event for up to 30.000 ms before aten::embedding, "
        "0.500 ms after the start of a step, in 3 of 4 steps"
    )
    assert (row["change"], row["cost_ns"]) == ("pauses remove", 90_000_000)
    assert said(path, "launch_bound") == []


def test_pauses_gain_what_they_take(tiny_trace: Tiny) -> None:
    path = tiny_trace(_sleeping(30, 30, 30))
    with tracekit.open(path, cache=False) as trace:
        first, *others = trace.advise(is_recorded=True).advice
        # The window begins behind the first pause.
        assert (first.candidate.rule, first.gain_ns) == ("advice_pauses", 60_000_000)
        assert [one for one in others if one.candidate.is_of_launches] == []


@pytest.mark.parametrize("slept", [(1, 1, 1), (30, 0, 0, 0), (0, 0)])
def test_short_and_single_pauses_are_none_of_the_steps(
    tiny_trace: Tiny, slept: tuple[int, ...]
) -> None:
    assert said(tiny_trace(_sleeping(*slept)), "pauses") == []


def test_a_pause_in_a_range_is_of_the_range(tiny_trace: Tiny) -> None:
    path = tiny_trace(_sleeping(30, 30, 30, name="read_shard"))
    assert said(path, "pauses") == []
    assert [change for change, _ in changes(path, "python")] == ["range=read_shard remove"]


def test_the_run_pauses_as_long_as_the_recording(tiny_trace: Tiny) -> None:
    with tracekit.open(tiny_trace(_sleeping(30, 30, 30)), cache=False) as trace:
        left = trace.sql(
            "SELECT max(p.plain_ns), max(p.low_ns) FROM plain_weight AS p "
            "INNER JOIN graph_edge AS e USING (edge_id) "
            "WHERE e.kind = 'host' AND e.weight_ns >= 30000000"
        ).rows
    assert min(left[0]) >= 30_000_000


H200 = Path(__file__).parents[3] / "shared" / "h200"


@pytest.mark.skipif(not H200.is_dir(), reason="recordings of a GPU are not here")
@pytest.mark.parametrize("path", sorted(H200.glob("*.json.gz")), ids=lambda path: path.name[:-8])
def test_only_the_loop_that_sleeps_pauses(path: Path) -> None:
    if path.name.startswith("execution_trace_et"):
        pytest.skip("no trace of its own")
    with tracekit.open(path, cache=False) as trace:
        rows = trace.query("advice_pauses").to_dicts()
    assert bool(rows) == (path.name == "llama_loader.json.gz")
    if rows:
        # Marked events had 30.36 ms in the recorded steps, of which 0.02 ms are the event's.
        assert abs(rows[0]["cost_ns"] / 3 - 30.34e6) < 0.05e6
