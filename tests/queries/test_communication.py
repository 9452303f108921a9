"""Analyses communication and collectives: time, bytes and bandwidth of collectives."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import AskedByRank, Cases
from traces_by_hand import span, work

import tracekit

Opened = Callable[[Path], tracekit.Trace]

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"
SEND_RECV = "ncclDevKernel_SendRecv(x)"


def arguments(collective: str, incoming: int, outgoing: int, size: int = 4) -> dict[str, Any]:
    return {
        "Collective name": collective,
        "In msg nelems": incoming,
        "Out msg nelems": outgoing,
        "Group size": size,
        "dtype": "BFloat16",
        "Process Group Name": "7",
        "Process Group Description": "tp",
        "Process Group Ranks": "[0, 1, 2, 3]",
        "Seq": 12,
    }


CASES = Cases()
asked = CASES.fixture()


def only(asked: AskedByRank, rank: int, name: str, **params: object) -> dict[str, Any]:
    (row,) = asked.rows(rank, name, **params)
    return row


REDUCED = CASES.add(
    [
        span("user_annotation", "ProfilerStep#3", 0, 200),
        *work(1, 10, 50, 1),
        *work(2, 30, 70, 2, ALL_REDUCE, **arguments("allreduce", 500_000, 500_000)),
        *work(90, 100, 110, 3),
    ]
)


def test_time_bytes_and_bandwidth_on_paper(asked: AskedByRank) -> None:
    """An all-reduce of 1 MB over 4 ranks in 40 µs, half of it behind compute; a step of 100 µs."""
    row = only(asked, REDUCED, "communication")
    call = only(asked, REDUCED, "collectives")
    assert (row["class"], row["collective"], row["class_source"]) == (
        "comm_allreduce",
        "allreduce",
        "kernel arguments",
    )
    assert (row["pg_name"], row["pg_desc"], row["group_size"]) == ("7", "tp", 4)
    assert (row["call_count"], row["sized_count"], row["message_bytes"]) == (1, 1, 1_000_000)
    assert (row["kernel_ns"], row["comm_ns"], row["wall_ns"]) == (40_000, 40_000, 20_000)
    assert row["overlapped_pct"] == 50.0
    assert (row["wall_pct"], row["kernel_pct"]) == (20.0, 40.0)
    assert (row["step_kernel_ns"], row["step_pct"]) == (40_000.0, 40.0)
    assert row["algorithm_bytes_per_s"] == pytest.approx(25e9)
    assert row["bus_bytes_per_s"] == pytest.approx(37.5e9)
    assert row["reason"] is None
    assert (call["seq"], call["pg_ranks"], call["start_ns"]) == (12, "[0, 1, 2, 3]", 30_000)
    assert (call["dtype"], call["dur_ns"], call["wall_ns"]) == ("bf16", 40_000, 20_000)


# Elements in and out; the class, the message's bytes, and bus bandwidth by algorithm's.
COLLECTIVES = {
    "allreduce_coalesced": (1000, 1000, "comm_allreduce", 2000, 1.5),
    "_allgather_base": (1000, 4000, "comm_allgather", 8000, 0.75),
    "_reduce_scatter_base": (4000, 1000, "comm_reducescatter", 8000, 0.75),
    "all_to_allv": (1000, 1200, "comm_alltoall", 2000, 0.75),
    "broadcast": (1000, 1000, "comm_broadcast", 2000, 1.0),
    "send": (1000, 1000, "comm_p2p", 2000, 1.0),
    "barrier": (1, 1, "comm_other", 2, 1.0),
}


OF_A_KIND = {
    name: CASES.add(work(1, 10, 20, 1, SEND_RECV, **arguments(name, incoming, outgoing)))
    for name, (incoming, outgoing, *_) in COLLECTIVES.items()
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_each_collective_has_its_message_and_factor(asked: AskedByRank, name: str) -> None:
    _, _, expected_class, message_bytes, factor = COLLECTIVES[name]
    row = only(asked, OF_A_KIND[name], "communication")
    assert (row["class"], row["message_bytes"]) == (expected_class, message_bytes)
    assert row["bus_bytes_per_s"] == pytest.approx(factor * row["algorithm_bytes_per_s"])


ALL_TO_ALL = CASES.add(
    [
        span("cpu_op", "c10d::alltoall_base_", 0, 10),
        span("cpu_op", "record_param_comms", 1, 9, **arguments("all_to_all", 800, 800)),
        span("user_annotation", "nccl:all_to_all", 2, 8),
        *work(3, 20, 30, 1, SEND_RECV),
        *work(12, 40, 50, 2, SEND_RECV),
    ]
)


def test_the_record_around_the_launch_tells_what_the_kernel_is(asked: AskedByRank) -> None:
    """A SendRecv kernel without arguments, launched inside an all-to-all; the next one is bare."""
    first, second = asked.rows(ALL_TO_ALL, "communication")
    assert (first["class"], first["class_source"]) == ("comm_alltoall", "record_param_comms")
    assert (first["message_bytes"], first["reason"]) == (1600, None)
    assert (second["class"], second["class_source"]) == ("comm_p2p", "name")
    assert second["reason"] == "nothing around its launch tells of a collective"
    assert second["algorithm_bytes_per_s"] is None


GATHERED = {"Input Dims": [[4000], [1000], []], "Input type": ["float", "float", ""]}


ALL_GATHER = CASES.add(
    [
        span("cpu_op", "c10d::_allgather_base_", 0, 10, **GATHERED),
        span("cpu_op", "record_param_comms", 1, 9),
        *work(3, 20, 30, 1, SEND_RECV),
    ]
)


def test_shapes_of_the_op_tell_size_and_group(asked: AskedByRank) -> None:
    """An all-gather of 2023, whose record has no arguments: 4 × 1,000 floats out, 1,000 in."""
    row = only(asked, ALL_GATHER, "communication")
    assert (row["class"], row["class_source"]) == ("comm_allgather", "op")
    assert (row["group_size"], row["message_bytes"], row["reason"]) == (4, 16_000, None)


WITHOUT_GROUP = arguments("allreduce", 1000, 1000)
del WITHOUT_GROUP["Group size"]


INCOMPLETE = CASES.add(
    [
        *work(1, 10, 20, 1, ALL_REDUCE, **WITHOUT_GROUP),
        *work(2, 30, 40, 2, ALL_REDUCE, **{**WITHOUT_GROUP, "dtype": "Quaternion"})[1:],
    ]
)


def test_incomplete_arguments_are_refused_with_the_reason(asked: AskedByRank) -> None:
    rows = asked.rows(INCOMPLETE, "collectives")
    assert [(row["message_bytes"], row["bus_bytes_per_s"], row["reason"]) for row in rows] == [
        (2000, None, "group size not recorded"),
        (None, None, "its launch was not recorded"),
    ]


OF_THE_OP = {"Input Dims": [[500], [1000], []], "Input type": ["float", "float", ""]}
OF_GLOO = {"Input Dims": [[1000]], "Input type": ["float"]}


GLOO = CASES.add(
    [
        span("cpu_op", "aten::mul", 0, 10),
        span("cpu_op", "c10d::_reduce_scatter_base_", 10, 12, **OF_THE_OP),
        span("user_annotation", "gloo:all_reduce", 13, 23, 2, **OF_GLOO),
    ]
)


def test_gloo_runs_a_reduce_scatter_as_an_all_reduce(asked: AskedByRank) -> None:
    """The c10d op tells what the span on the backend's thread is; it is one collective."""
    row = only(asked, GLOO, "communication")
    transfer, call = asked.rows(GLOO, "collectives")
    (kernels,) = (
        found
        for found in asked.rows(GLOO, "kernel_classes")
        if found["class"] == "comm_reducescatter"
    )
    assert (row["class"], row["collective"]) == (
        "comm_reducescatter",
        "c10d::_reduce_scatter_base_",
    )
    assert (row["call_count"], row["kernel_ns"], row["group_size"]) == (1, 12_000, 2)
    assert row["message_bytes"] == 4000
    assert row["algorithm_bytes_per_s"] == pytest.approx(4000 / 10e-6)
    assert row["kernel_count"] == kernels["kernel_count"] == 2
    assert row["kernel_ns"] == kernels["kernel_ns"] == transfer["dur_ns"] + call["dur_ns"]
    told = ("span_of", "name", "dur_ns", "message_bytes", "algorithm_bytes_per_s")
    assert [transfer[column] for column in told] == [
        *("transfer", "gloo:all_reduce", 10_000, 4000),
        pytest.approx(4000 / 10e-6),
    ]
    assert [call[column] for column in told] == [
        *("call", "c10d::_reduce_scatter_base_", 2_000, None),
        None,
    ]


WITHOUT_COMMUNICATION = CASES.add(work(1, 10, 50, 1))


def test_a_trace_without_communication_has_no_rows(asked: AskedByRank) -> None:
    for analysis in ("communication", "collectives", "overlap"):
        assert asked.rows(WITHOUT_COMMUNICATION, analysis) == []


def test_kernel_arguments_against_the_file(public_traces: Path, opened: Opened) -> None:
    """Every sum of a DDP run with NCCL's arguments, worked out from the JSON again."""
    path = public_traces / "hta_ddp_nccl_metadata.json.gz"
    with gzip.open(path) as file:
        content = json.load(file, parse_float=Decimal)
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for event in content["traceEvents"]:
        told = event.get("args", {})
        if event.get("cat") == "kernel" and "Collective name" in told:
            assert told["dtype"] in ("Float", "Long")
            size = {"Float": 4, "Long": 8}[told["dtype"]]
            row = sums[told["Collective name"]]
            row[0] += 1
            row[1] += int(event["dur"] * 1000)
            row[2] += told["In msg nelems"] * size
    rows = {row["collective"]: row for row in opened(path).query("communication").to_dicts()}
    assert rows.keys() == sums.keys() == {"allreduce", "broadcast"}
    for name, (count, dur_ns, size) in sums.items():
        row = rows[name]
        assert (row["call_count"], row["kernel_ns"], row["message_bytes"]) == (count, dur_ns, size)
        rate = Fraction(size * 10**9, dur_ns)
        assert row["algorithm_bytes_per_s"] == pytest.approx(float(rate))
        assert row["bus_bytes_per_s"] == pytest.approx(float(rate))  # 2 ranks: 2 (2 - 1) / 2 = 1.


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        (
            "tl_mi300_resnet_ddp_recompute",
            {
                "comm_allreduce": ("kernel arguments", 8, 6, 47_137_038, 70_137_072),
                "comm_broadcast": ("kernel arguments", 8, 6, 63_272, 58_080),
                "comm_other": ("name", 8, 5, 24_316_213, None),
            },
        ),
        (
            "hta_a100_cudagraph",
            {
                "comm_allgather": ("range", 8, 10, 4_776_000, 587_202_560),
                "comm_reducescatter": ("range", 8, 10, 3_796_000, 587_202_560),
                "comm_alltoall": ("range", None, 45, 30_262_000, 157_873_564),
            },
        ),
        (
            "cpu_llama_z3_rank0",
            {
                "comm_allgather": ("op", 2, 136, 282_172_722, 44_049_408),
                "comm_reducescatter": ("op", 2, 20, 42_593_735, 17_048_576),
                "comm_allreduce": ("op", 2, 2, 2_213_178, 16),
            },
        ),
    ],
)
def test_public_traces(
    public_traces: Path, opened: Opened, name: str, figures: dict[str, tuple[Any, ...]]
) -> None:
    rows = opened(public_traces / f"{name}.json.gz").query("communication").to_dicts()
    found = {
        row["class"]: (
            row["class_source"],
            row["group_size"],
            row["call_count"],
            row["kernel_ns"],
            row["message_bytes"],
        )
        for row in rows
    }
    assert found | figures == found
