"""Kernels that graphs replay have the op and the module of their capture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import Event, call, kernel, span

import tracekit
from tracekit.errors import StoreError, TraceError, UsageError
from tracekit.opening import ingest

MATRIX: dict[str, Any] = {"Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"]}


def op(name: str, start: float, end: float, **args: Any) -> Event:
    return span("cpu_op", name, start, end, **args)


def launch(at: float, kernel_name: str | None = None, name: str = "hipLaunchKernel") -> Event:
    """A call of a capture; ROCm says which kernel it is of."""
    event = call(at, at + 1, int(at), name)
    if kernel_name is not None:
        event["args"]["kernel"] = kernel_name
    return event


def captured(at: float, *inside: Event) -> list[Event]:
    begin = call(at, at + 1, name="hipStreamBeginCapture")
    return [begin, *inside, call(at + 98, at + 99, name="hipStreamEndCapture")]


def replay(at: float, number: int, *names: str, **args: Any) -> list[Event]:
    starts = [at + 10 + 5 * place for place in range(len(names))]
    kernels = [
        kernel(name, start, start + 4, number, **args)
        for name, start in zip(names, starts, strict=True)
    ]
    return [call(at, at + 2, number, "hipGraphLaunch"), *kernels]


LAYER = [
    span("python_function", "nn.Module: Layer_0", 105, 190),
    span("python_function", "nn.Module: Linear_0", 110, 130),
    op("aten::mm", 111, 129, **MATRIX),
    launch(112, "gemm"),
    op("aten::relu", 140, 150),
    launch(141, "relu"),
    launch(160, name="hipMemcpyAsync"),
]
CAPTURE = captured(100, *LAYER)
DECODE = span("user_annotation", "execute_context_0(0)_generation_1(1)", 1990, 2400)
COPY = "Memcpy DtoD (Device -> Device)"
REPLAYS = [
    DECODE,
    *replay(2000, 1000, "gemm", "relu", COPY),
    *replay(2100, 1001, "gemm", "relu", COPY),
    # Neither has what was captured.
    *replay(2200, 1002, "relu", "gemm", COPY),
    *replay(2300, 1003, "gemm", "relu"),
]

ATTRIBUTED = """
SELECT a.name, a.op_name, m.path, a.module_reason, a.phase, a.is_inferred
FROM attributed_events AS a
LEFT JOIN module AS m USING (trace_id, module_id)
ORDER BY a.ts_ns
"""
KNOWN = [
    ("gemm", "aten::mm", "Layer_0/Linear_0", "capture", "decode", True),
    ("relu", "aten::relu", "Layer_0", "capture", "decode", True),
    (COPY, None, "Layer_0", "capture", "decode", True),
]


def written(folder: Path, events: list[Event], name: str = "trace.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def attributed(folder: Path, events: list[Event], **options: Any) -> list[tuple[Any, ...]]:
    with tracekit.open(written(folder, events), cache=False, **options) as trace:
        return [tuple(row) for row in trace.sql(ATTRIBUTED).rows]


@pytest.mark.parametrize("is_apart", [False, True])
def test_a_replay_is_what_was_captured(tmp_path: Path, is_apart: bool) -> None:
    options: dict[str, Any] = {}
    if is_apart:
        # Work of the capture's file is not counted.
        options["capture"] = written(tmp_path, [*CAPTURE, kernel("other", 1, 9)], "capture.json")
    rows = attributed(tmp_path, REPLAYS if is_apart else [*CAPTURE, *REPLAYS], **options)
    assert rows[:6] == [*KNOWN, *KNOWN]
    assert [row[1:4] for row in rows[6:]] == [(None, None, "none")] * 5


def test_each_replay_calls_its_ops(tmp_path: Path) -> None:
    capture = written(tmp_path, CAPTURE, "capture.json")
    with tracekit.open(written(tmp_path, REPLAYS), capture=capture, cache=False) as trace:
        rows = trace.query("op_arguments").to_dicts()
        gemm = trace.query("gemms").to_dicts()[0]
        meaning = {row["metric"]: row["meaning"] for row in trace.query("health").to_dicts()}
        events = trace.sql("SELECT count(*) FROM event").rows
        why = trace.query("why", kernel="gemm", limit=1).to_dicts()
    names = ("op", "shapes", "op_count", "host_ns", "kernel_count", "kernel_ns")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("aten::mm", "[[64,32],[32,16]]", 2, 0, 2, 8_000),
        ("aten::relu", None, 2, 0, 2, 8_000),
    ]
    # Two calls of 64 x 32 x 16, and no more than that.
    assert (gemm["call_count"], gemm["flops"]) == (2, 2 * 2 * 64 * 32 * 16)
    assert "of 11 device events that graphs replayed, 6 have" in meaning["device_time_in_op"]
    assert events == [(len(REPLAYS),)]
    assert any(row["is_decided"] and row["reason"] == "capture" for row in why)


def test_names_that_calls_do_not_say_are_those_of_the_op_before(tmp_path: Path) -> None:
    """CUDA's calls name no kernel: the op that ran before its capture does."""
    warm = [
        op("aten::mm", 10, 20, **MATRIX),
        call(11, 12, 7),
        kernel("gemm", 13, 15, 7),
        op("aten::relu", 30, 40),
        call(31, 32, 8),
        kernel("relu", 33, 35, 8),
    ]
    unnamed = [launch(one["ts"]) if one["name"] == "hipLaunchKernel" else one for one in LAYER]
    capture = [*warm, *captured(100, *unnamed)]
    for options, events in (
        ({}, [*capture, *REPLAYS]),
        ({"capture": written(tmp_path, capture, "capture.json")}, REPLAYS),
    ):
        assert attributed(tmp_path, events, **options)[-11:][:3] == KNOWN
    # Without them nothing is known for sure.
    rows = attributed(tmp_path, [*captured(100, *unnamed), *REPLAYS])
    assert {row[1] for row in rows} == {None}


def layers(*names: str) -> list[Event]:
    """One capture after the other, each of one op around one kernel."""
    events: list[Event] = []
    for number, name in enumerate(names):
        at = 100 + 100 * number
        around = span("python_function", f"nn.Module: Layer_{number}", at + 2, at + 90)
        inside = (around, op("aten::mm", at + 10, at + 20), launch(at + 11, name))
        events += captured(at, *inside)
    return events


@pytest.mark.parametrize(
    ("captures", "replayed", "found"),
    [
        # Layers that are alike are told by the first and the last one.
        ("abbc", "abbc abbc", "0123 0123"),
        # The trace begins and ends within a step.
        ("abbc", "bc abb", "23 012"),
        # A layer is missing: which, nobody knows.
        ("abbc", "abc", "0-3"),
        # Two models, or sizes of one, whose kernels have the same names.
        ("abab", "abab", "----"),
        ("aa", "aaa", "---"),
    ],
)
def test_captures_that_are_alike_are_told_by_their_order(
    tmp_path: Path, captures: str, replayed: str, found: str
) -> None:
    events = layers(*captures)
    for number, name in enumerate(replayed.replace(" ", "")):
        events += replay(2000 + 100 * number, 3000 + number, name)
    places = [row[2] for row in attributed(tmp_path, events)]
    assert places == [
        None if place == "-" else f"Layer_{place}" for place in found.replace(" ", "")
    ]


def test_several_sizes_and_several_streams_are_not_told(tmp_path: Path) -> None:
    sizes = [
        *replay(2000, 1000, "gemm", "relu", COPY, grid=[1, 1, 1]),
        *replay(2100, 1001, "gemm", "relu", COPY, grid=[2, 1, 1]),
    ]
    streams = replay(2000, 1000, "gemm", "relu", COPY)
    streams[2]["args"]["stream"] = 8
    for events in (sizes, streams):
        assert {row[1] for row in attributed(tmp_path, [*CAPTURE, *events])} == {None}
    # The numbers of nodes tell the order of work on several streams.
    for number, event in enumerate(streams[1:]):
        event["args"]["graph node id"] = 5 + number
    assert attributed(tmp_path, [*CAPTURE, *streams])[0][1] == "aten::mm"


def test_the_capture_is_part_of_the_cache(tmp_path: Path) -> None:
    trace, capture = written(tmp_path, REPLAYS), written(tmp_path, CAPTURE, "capture.json")
    known = []
    for options in ({}, {"capture": capture}, {}):
        with tracekit.open(trace, **options) as opened:
            known.append(opened.sql("SELECT count(op_name) FROM attributed_events").rows[0][0])
    assert known == [0, 4, 0]
    with pytest.raises(UsageError, match="2 are given"):
        tracekit.open(trace, capture, capture=capture)
    with pytest.raises(TraceError, match="no graph is captured"):
        tracekit.open(trace, capture=trace, cache=False)
    store = ingest([trace], tmp_path / "a.duckdb", capture=capture)
    with pytest.raises(StoreError, match="has the ops of its kernels"):
        tracekit.open(store, capture=capture)
