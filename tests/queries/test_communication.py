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

import tracekit

Opened = Callable[[Path], tracekit.Trace]


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
