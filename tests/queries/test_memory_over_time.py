"""Analysis memory_over_time: the most memory in use in each part of the time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import opened_as_ranks, rows_by_rank
from traces_by_hand import Event, call, kernel

import tracekit


def allocated(at: float, allocated_bytes: int, reserved_bytes: int, **place: int) -> dict[str, Any]:
    args = {
        "Addr": 1,
        "Bytes": 1,
        "Total Allocated": allocated_bytes,
        "Total Reserved": reserved_bytes,
        "Device Type": 1,
        "Device Id": 0,
    }
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1}
    return {**event, "ts": at, "args": {**args, **place}}


def test_the_most_of_each_part_and_what_was_kept_then(tiny_trace: Callable[..., Path]) -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 99},
        allocated(10, 100, 1_000),
        allocated(20, 300, 1_000),
        allocated(25, 200, 2_000),
        allocated(80, 250, 2_000),
        allocated(15, 7, 0, **{"Device Type": 0, "Device Id": -1}),
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        rows = trace.query("memory_over_time", points=2).to_dicts()
    keys = ("device", "at_ns", "allocated_bytes", "reserved_bytes", "event_count")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("0", 20_000, 300, 1_000, 3),
        ("0", 80_000, 250, 2_000, 1),
        ("cpu", 15_000, 7, 0, 1),
    ]


def on_hip(*devices: int, memory: tuple[int, ...] = (0,)) -> list[Event]:
    """Work of some devices, as ROCm numbers them, and memory of some, as torch does."""
    events: list[Event] = [allocated(5, 7, 0, **{"Device Type": 0, "Device Id": -1})]
    for place, device in enumerate(devices, start=1):
        events += [call(place, place + 0.5, place, "hipLaunchKernel")]
        events += [kernel("gemm", 10, 20, place, device=device)]
    for number in memory:
        events += [allocated(6 + number, 100, 1_000, **{"Device Type": 6, "Device Id": number})]
    return events


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What is told of traces that number devices in two ways: devices with work, and memory's."""
    cases = [
        on_hip(2),
        on_hip(2, 3, memory=(0, 1)),
        on_hip(1, 2, memory=(0, 1)),
        on_hip(2, 3, 4, memory=(0,)),
        [
            call(1, 2, 1),
            kernel("gemm", 10, 20, 1, device=0),
            allocated(6, 100, 1_000, **{"Device Id": 1}),
        ],
    ]
    folder = tmp_path_factory.mktemp("numbered")
    properties = [{"id": 0, "name": "AMD Instinct MI300X"}, {"id": 1, "name": "AMD Instinct MI210"}]
    with opened_as_ranks(folder, cases[:1], deviceProperties=properties[:1]) as trace:
        one = trace.query("trace").column("devices")
    with opened_as_ranks(folder, cases, deviceProperties=properties) as trace:
        memory = rows_by_rank(trace, "memory_over_time")
        return (
            [*one, *trace.query("trace").column("devices")],
            [[row["device"] for row in memory[rank]] for rank in range(len(cases))],
        )


def test_memory_has_the_numbers_of_the_devices_that_work(numbered: Any) -> None:
    """Of as many as work, in their order; where that is not known, those of the file."""
    _, memory = numbered
    assert memory == [["2", "cpu"], ["2", "3", "cpu"], ["1", "2", "cpu"], ["0", "cpu"], ["1"]]


def test_the_one_device_described_is_the_one_that_works(numbered: Any) -> None:
    """Of several, those of other makes are told where as many work."""
    devices, _ = numbered
    both = ["AMD Instinct MI300X", "AMD Instinct MI210"]
    assert devices == [
        ["2 AMD Instinct MI300X"],
        ["2"],
        [f"2 {both[0]}", f"3 {both[1]}"],
        [f"1 {both[0]}", f"2 {both[1]}"],
        ["2", "3", "4"],
        [f"0 {both[0]}"],
    ]


def test_the_highest_of_all_is_always_there(public_traces: Path, opened: Any) -> None:
    trace = opened(public_traces / "tl_h100_qwen.json.gz")
    (peak,) = trace.sql("SELECT max(total_allocated_bytes) AS peak FROM memory").column("peak")
    for points in (1, 7, 1_000):
        rows = trace.query("memory_over_time", points=points)
        assert max(rows.column("allocated_bytes")) == peak
