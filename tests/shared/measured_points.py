"""Points of microbenchmarks, and the ceilings that are found of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracekit.analysis.ceiling_sources import Sources
from tracekit.analysis.ceilings import TracedDevice, find

MakeBench = Callable[..., Path]
EPYC = "AMD EPYC"
NAME = "NVIDIA H100 80GB HBM3"
CPU = {"device": "cpu", "device_name": EPYC, "thread_count": 2}
GPU = {"device": "cuda:0", "device_name": NAME}
MM = {"family": "gemm", "op": "mm", "dtype": "bf16", "m": 10, "n": 10, "k": 10}
FAST = MM | {"median_ns": 1000.0}
SLOW = MM | {"median_ns": 4000.0}
ALL_REDUCE = {
    "family": "collective",
    "op": "all_reduce",
    "backend": "gloo",
    "group_size": 2,
    "message_bytes": 1000,
    "median_ns": 1000.0,
}


def found(place: TracedDevice, sources: Sources) -> list[tuple[Any, ...]]:
    """Return of each row: kind, thread_count, rate, origin, reason."""
    rows = find(place, sources)
    return [(row[4], row[3], row[10] or row[11] or row[12], row[13], row[16]) for row in rows]


def cpu(name: str | None = EPYC, threads: int | None = 2, nodes: int | None = 1) -> TracedDevice:
    return TracedDevice(0, "cpu", name, None, threads, nodes)


def gpu(name: str | None = NAME, units: int | None = 132) -> TracedDevice:
    return TracedDevice(0, "*", name, units, 8, 1)
