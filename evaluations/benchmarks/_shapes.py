"""Traces with one unusual property of variable size, to measure growth.

A shape is a function that takes a count and returns the events of each rank. Shape `NAME:new` is
the other side of a comparison.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from traces_by_hand import call, kernel, span

Event = dict[str, Any]
Ranks = list[list[Event]]

OP_US = 10


def _each(shape: Callable[[int, int, int], Iterable[Event]]) -> Callable[[int], Ranks]:
    """Create a shape from a function that returns events for a number and a start time."""

    @functools.wraps(shape)
    def of_one_rank(count: int) -> Ranks:
        numbers = range(count)
        return [[event for number in numbers for event in shape(number, number * OP_US, count)]]

    return of_one_rank


def _launched(number: int, start: float, name: str = "k", **args: object) -> list[Event]:
    """Return a launch of 2 µs and its kernel of 4 µs."""
    return [call(start, start + 2, number), kernel(name, start + 3, start + 7, number, **args)]


def _op(number: int, start: float, name: str = "aten::mm", tid: int = 1, **args: object) -> Event:
    return span("cpu_op", name, start, start + OP_US - 1, tid, **args)


def _nested(count: int, category: str, name: Callable[[int], str], **args: object) -> Ranks:
    """Return nested ranges that launch one kernel at each depth."""
    events = []
    for depth in range(count):
        start = depth * OP_US
        events.append(span(category, name(depth), start, 2 * count * OP_US - start, **args))
        events += _launched(depth + 1, start + 1)
    return [events]


def nested_ranges(count: int) -> Ranks:
    return _nested(count, "user_annotation", lambda depth: f"range {depth}")


def nested_ranges_new(count: int) -> Ranks:
    return _nested(count, "user_annotation", lambda depth: f"another {depth}")


def nested_ops(count: int) -> Ranks:
    return _nested(count, "cpu_op", lambda depth: f"aten::op{depth % 7}")


def nested_modules(count: int) -> Ranks:
    events = []
    for depth in range(count):
        start = depth * OP_US
        args = {"Python id": depth + 1, "Python parent id": depth or None}
        args |= {"Python module id": 0}
        end = 2 * count * OP_US - start
        events.append(span("python_function", f"nn.Module: Class{depth}_0", start, end, **args))
        events += _launched(depth + 1, start + 1)
    return [events]


def _siblings(count: int, prefix: str) -> Ranks:
    events = [span("user_annotation", "tk/module/forward/model#Model", 0, OP_US * (count + 1))]
    for number in range(count):
        start = number * OP_US
        name = f"tk/module/forward/model.{prefix}{number}#Class{prefix}{number}"
        events.append(span("user_annotation", name, start, start + OP_US - 1))
        inner = f"tk/module/forward/model.{prefix}{number}.part{number % 3}#Part"
        events.append(span("user_annotation", inner, start + 0.5, start + OP_US - 2))
        events.append(span("cpu_op", f"aten::{prefix}{number}", start + 0.7, start + OP_US - 3))
        events += _launched(number + 1, start + 1, f"{prefix}_kernel_{number}")
    return [events]


def siblings(count: int) -> Ranks:
    return _siblings(count, "left")


def siblings_new(count: int) -> Ranks:
    return _siblings(count, "right")


@_each
def threads(number: int, start: int, count: int) -> Iterable[Event]:
    yield _op(number, number * 3, tid=number + 1)
    yield call(number * 3 + 1, number * 3 + 2, number + 1, tid=number + 1)
    yield kernel("k", start + 5, start + 12, number + 1)


@_each
def busy_threads(number: int, start: int, count: int) -> Iterable[Event]:
    """Every thread is in a call for the entire window; the device has one gap per thread."""
    yield span("cpu_op", "aten::item", number * 0.001, count * OP_US + number, number + 2)
    yield call(
        0.5 + number * 0.001,
        count * OP_US - 1,
        10**6 + number,
        "cudaStreamSynchronize",
        number + 2,
    )
    yield _op(number, start)
    yield from _launched(number + 1, start + 1)


@_each
def streams(number: int, start: int, count: int) -> Iterable[Event]:
    yield _op(number, start)
    start += 1
    yield call(start, start + 2, number + 1)
    yield kernel("k", start + 3, start + 300, number + 1, stream=number + 7)


def devices(count: int) -> Ranks:
    events = []
    for number in range(count // 4):
        events.append(_op(number, number * OP_US))
        events += _launched(number + 1, number * OP_US + 1, device=number)
    return [events]


@_each
def steps(number: int, start: int, count: int) -> Iterable[Event]:
    yield span("user_annotation", f"ProfilerStep#{number}", start, start + OP_US)
    yield _op(number, start)
    yield from _launched(number + 1, start + 1)


@_each
def names(number: int, start: int, count: int) -> Iterable[Event]:
    shapes = {"Input Dims": [[number + 1, 8], [8, 8]], "Input type": ["float", "float"]}
    yield _op(number, start, f"aten::op{number}" if number % 2 else "aten::mm", **shapes)
    yield from _launched(number + 1, start + 1, f"kernel_{number}<int, {number}>")


@_each
def overlapping(number: int, start: int, count: int) -> Iterable[Event]:
    """Kernels that all overlap, on separate streams and on one stream; the same for ranges."""
    end = (count + number) * OP_US
    yield span("user_annotation", f"range {number % 5}", start, end)
    yield call(start + 1, start + 2, number + 1)
    name = "ncclDevKernel_AllReduce_Sum_f32" if number % 3 == 0 else "k"
    yield kernel(name, start + 3, end, number + 1, stream=7 + number % 5)


@_each
def within(number: int, start: int, count: int) -> Iterable[Event]:
    """Nested kernels."""
    end = 3 * count * OP_US - number
    yield call(start + 1, start + 2, number + 1)
    name = "ncclDevKernel_AllReduce_Sum_f32" if number % 2 == 0 else "k"
    yield kernel(name, start + 3, end, number + 1, stream=7 + number % 2)


@_each
def same_instant(number: int, start: int, count: int) -> Iterable[Event]:
    yield span("cpu_op", "aten::mm", 0, 100)
    yield call(0, 100, number + 1)
    yield kernel("k", 50, 100, number + 1)


@_each
def no_length(number: int, start: int, count: int) -> Iterable[Event]:
    yield span("cpu_op", "aten::mm", 5, 5)
    yield call(5, 5, number + 1)
    yield kernel("k", 5 + number % 2, 5 + number % 2, number + 1)


@_each
def one_correlation(number: int, start: int, count: int) -> Iterable[Event]:
    yield _op(number, start)
    yield from _launched(7, start + 1)


def graph_replays(count: int) -> Ranks:
    events = [call(0, 20, 7, "cudaGraphLaunch")]
    for number in range(count):
        start = 30 + number * OP_US
        events.append(kernel(f"k{number % 9}", start, start + 7, 7, **{"graph node id": number}))
    return [events]


def _autograd(count: int, sequence: Callable[[int], int]) -> Ranks:
    events = []
    for number in range(count):
        start = number * OP_US
        args = {"Sequence number": sequence(number), "Fwd thread id": 0}
        events.append(span("cpu_op", "aten::mm", start, start + 9, **args))
        events += _launched(number + 1, start + 1)
    for number in range(count):
        start = (count + number) * OP_US
        args = {"Sequence number": sequence(count - 1 - number), "Fwd thread id": 1}
        node = "autograd::engine::evaluate_function: MmBackward0"
        events.append(span("cpu_op", node, start, start + 9.5, 2, **args))
        events.append(span("cpu_op", "MmBackward0", start + 0.2, start + 9, 2, **args))
        events.append(call(start + 1, start + 3, count + number + 1, tid=2))
        events.append(kernel("k", start + 4, start + 8, count + number + 1))
    return [events]


def autograd(count: int) -> Ranks:
    return _autograd(count, lambda number: number + 1)


def one_sequence_number(count: int) -> Ranks:
    return _autograd(count, lambda _: 3)


def forward_threads(count: int) -> Ranks:
    """Forward threads with one node each, and as many candidate threads."""
    events = []
    for number in range(count):
        start = number * OP_US
        args = {"Sequence number": 3, "Fwd thread id": 0}
        events.append(span("cpu_op", "aten::mm", start, start + 9, number + 3, **args))
        events.append(call(start + 1, start + 3, number + 1, tid=number + 3))
        events.append(kernel("k", start + 4, start + 8, number + 1))
    for number in range(count):
        start = (count + number) * OP_US
        args = {"Sequence number": 3, "Fwd thread id": number + 1}
        events.append(span("cpu_op", "MmBackward0", start, start + 9, 2, **args))
        events.append(call(start + 1, start + 3, count + number + 1, tid=2))
        events.append(kernel("k", start + 4, start + 8, count + number + 1))
    return [events]


def _collective(
    number: int, start: float, rank: int, seq: int, group: str = "0"
) -> Iterable[Event]:
    args = {"Collective name": "allreduce", "In msg nelems": 64, "Out msg nelems": 64}
    args |= {"Group size": 2, "dtype": "Float", "Process Group Name": group, "Seq": seq}
    args |= {"Process Group Ranks": "[0, 1]"}
    name = "ncclDevKernel_AllReduce_Sum_f32"
    yield call(start, start + 1, number + 1)
    yield kernel(name, start + 2 + rank, start + 8, number + 1, stream=9, **args)


def _ranks(count: int, seq: Callable[[int], int], group: Callable[[int], str]) -> Ranks:
    return [
        [
            event
            for number in range(count)
            for event in _collective(number, number * OP_US, rank, seq(number), group(number))
        ]
        for rank in (0, 1)
    ]


def collectives(count: int) -> Ranks:
    return _ranks(count, lambda number: number, lambda _: "0")


def one_collective_number(count: int) -> Ranks:
    return _ranks(count, lambda _: 5, lambda _: "0")


def groups(count: int) -> Ranks:
    return _ranks(count, lambda _: 1, str)


@_each
def late_launches(number: int, start: int, count: int) -> Iterable[Event]:
    """A queue of all work: every launch precedes the first kernel."""
    yield call(number, number + 0.5, number + 1)
    start = count + start
    yield kernel("k", start, start + 9, number + 1)


@_each
def waits(number: int, start: int, count: int) -> Iterable[Event]:
    start = number * 3 * OP_US
    yield span("cpu_op", "aten::item", start, start + 25)
    yield call(start + 1, start + 3, 2 * number + 1)
    yield kernel("k", start + 4, start + 8, 2 * number + 1)
    yield call(start + 5, start + 20, 2 * number + 2, "cudaStreamSynchronize")


@_each
def memory(number: int, start: int, count: int) -> Iterable[Event]:
    yield _op(number, start)
    yield from _launched(number + 1, start + 1)
    args = {"Addr": number % 97, "Bytes": 64 if number % 2 else -64, "Device Id": 0}
    args |= {"Device Type": 1, "Total Allocated": 64 * number, "Total Reserved": 99 * number}
    yield (
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1}
        | {"tid": 1, "ts": start, "s": "t", "args": args}
    )


@_each
def async_collectives(number: int, start: int, count: int) -> Iterable[Event]:
    """Ranges of collectives on one thread, each of which encloses all later ones."""
    yield span("user_annotation", "nccl:all_reduce", start, 2 * count * OP_US + number)
    yield _op(number, start)
    yield from _launched(number + 1, start + 1)


@_each
def flows(number: int, start: int, count: int) -> Iterable[Event]:
    yield _op(number, start)
    yield from _launched(number + 1, start + 1)
    for phase in "sf":
        flow = {"ph": phase, "cat": "ac2g", "name": "ac2g", "id": 5, "pid": 1, "tid": 1}
        yield flow | {"ts": start + 1, "bp": "e"}


@_each
def compiled(number: int, start: int, count: int) -> Iterable[Event]:
    name = f"Torch-Compiled Region: {number}/0"
    yield span("user_annotation", name, start, start + 9)
    yield span("user_annotation", f"## Call CompiledFxGraph f{number} ##", start + 0.5, start + 8)
    yield call(start + 1, start + 3, number + 1)
    yield kernel(f"triton_poi_fused_add_{number}", start + 4, start + 8, number + 1)


def layers(count: int) -> Ranks:
    """A decoder of many layers, each with all parts."""
    events = [span("user_annotation", "tk/module/forward/model#LlamaModel", 0, 60 * count + 60)]
    number = 0
    for layer in range(count // 4):
        path = f"tk/module/forward/model.layers.{layer}"
        start = layer * 60
        events.append(span("user_annotation", f"{path}#LlamaDecoderLayer", start, start + 58))
        parts = ("self_attn.q_proj#Linear", "self_attn.v_proj#Linear", "self_attn.o_proj#Linear")
        for index, part in enumerate(
            (*parts, "mlp.up_proj#Linear", "input_layernorm#LlamaRMSNorm")
        ):
            begin = start + 1 + 11 * index
            events.append(span("user_annotation", f"{path}.{part}", begin, begin + 10))
            events.append(span("cpu_op", "aten::linear", begin + 0.5, begin + 9))
            number += 1
            events += _launched(number, begin + 1, "gemm")
    return [events]


def cpu_only(count: int) -> Ranks:
    return [[_op(number, number * OP_US, f"aten::op{number % 50}") for number in range(count)]]


def cpu_staircase(count: int) -> Ranks:
    """Overlapping ops on many threads, without an accelerator."""
    return [
        [
            span(
                "cpu_op",
                f"aten::op{number % 50}",
                number * OP_US,
                (count + number) * OP_US,
                number + 1,
            )
            for number in range(count)
        ]
    ]


def python_stack(count: int) -> Ranks:
    return _nested(count, "python_function", lambda depth: f"file.py({depth}): f{depth}")


SHAPES: dict[str, Callable[[int], Ranks]] = {
    shape.__name__: shape
    for shape in (
        *(nested_ranges, nested_ops, nested_modules, siblings, threads, busy_threads, streams),
        *(devices, steps, names, overlapping, within, same_instant, no_length, one_correlation),
        *(graph_replays, autograd, one_sequence_number, forward_threads, collectives),
        *(one_collective_number, groups, late_launches, waits, memory, async_collectives, flows),
        *(compiled, layers, cpu_only, cpu_staircase, python_stack),
    )
} | {"nested_ranges:new": nested_ranges_new, "siblings:new": siblings_new}
"""All shapes by name."""
