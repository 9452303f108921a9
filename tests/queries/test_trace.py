"""Which files were read, and how much is in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import opened_as_ranks
from traces_by_hand import span

import tracekit

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(tmp_path / "cache"))


def test_two_ranks(tiny_trace: Write) -> None:
    kernels = [
        span("kernel", "k", 5, 9, device=1, stream=7),
        span("kernel", "k", 6, 8, device=0, stream=7),
        span("gpu_memcpy", "Memcpy HtoD", 6, 8, device=0, stream=7),
        span("cpu_op", "aten::mm", 1, 4),
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
    ]
    second = tiny_trace(
        kernels,
        name="b/rank7.json",
        distributedInfo={"rank": 1, "world_size": 2, "backend": "nccl"},
        deviceProperties=[{"id": 0, "name": "NVIDIA H100"}, {"id": 1, "name": ""}],
    )
    broken = json.dumps([span("cpu_op", "aten::mm", 1, 4)])[:-1] + ',5,{"ph":"X"'
    first = tiny_trace(broken, name="b/worker0.json")
    read = [2 * [path.stat().st_size] for path in (first, second)]
    told, devices = "distributedInfo", ["0 NVIDIA H100", "1"]
    with tracekit.open(first.parent) as trace:
        result = trace.query("trace")
        assert result.column_names == (
            "rank", "rank_source", "file", "world_size", "accelerator", "is_recorded", "devices",
            "file_bytes", "text_bytes", "event_count", "complete_count", "device_event_count",
            "rejected_count", "repaired_count", "is_truncated", "window_ns",
            "execution_trace",
        )  # fmt: skip
        assert result.rows == [
            (
                0,
                "file name",
                str(first),
                None,
                "cpu",
                True,
                ["cpu"],
                *read[0],
                1,
                1,
                1,
                2,
                0,
                True,
                3_000,
                None,
            ),
            (
                *(1, told, str(second), 2, "cuda", True, devices, *read[1]),
                *(5, 4, 3, 0, 0, False, 8_000, None),
            ),
        ]


ACCELERATORS: list[tuple[list[dict[str, Any]], str]] = [
    ([span("kernel", "k", 0, 1)], "cuda"),
    ([span("kernel", "k", 0, 1), span("cuda_runtime", "hipLaunchKernel", 0, 1)], "hip"),
    ([span("kernel", "k", 0, 1), span("xpu_runtime", "urEnqueueKernelLaunch", 0, 1)], "xpu"),
    ([span("mtia_ccp_events", "k", 0, 1)], "mtia"),
    ([span("hpu_op", "k", 0, 1)], "hpu"),
    ([span("Kernel", "k", 0, 1)], "cuda"),
    ([span("cpu_op", "aten::mm", 0, 1)], "cpu"),
    # A launch without any work of a device: that was not recorded, and the CPU is no device.
    ([span("cuda_runtime", "cudaLaunchKernel", 0, 1)], "cuda"),
]


def test_accelerators(tmp_path: Path) -> None:
    """Of each rank by what it recorded itself."""
    with opened_as_ranks(tmp_path, [events for events, _ in ACCELERATORS]) as trace:
        found = trace.query("trace").column("accelerator")
    for (events, accelerator), one in zip(ACCELERATORS, found, strict=True):
        assert one == accelerator, events


def test_a_trace_without_spans(tiny_trace: Write) -> None:
    path = tiny_trace([{"ph": "i", "name": "mark", "ts": 5, "s": "g"}])
    with tracekit.open(path) as trace:
        (row,) = trace.query("trace").to_dicts()
        assert (row["event_count"], row["complete_count"], row["device_event_count"]) == (1, 0, 0)
        assert (row["devices"], row["window_ns"]) == ([], None)
