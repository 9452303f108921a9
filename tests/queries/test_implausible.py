"""Records whose times cannot be: they are named, and in no figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from cases_as_ranks import AskedByRank, Cases
from traces_by_hand import Event, call, kernel, span

import tracekit
from tracekit.report.verdict import sentences

EPOCH = 1_700_000_000_000_000
"""A time of today, µs since 1970."""

UPTIME = 7_000_000_000_000
"""A time 81 days after a boot, µs."""

SECOND = 1_000_000

CASES = Cases()
asked = CASES.fixture()


def steps(
    at: float, count: int = 4, *, name: str = "cudaLaunchKernel", device: int = 0, first: int = 1
) -> list[Event]:
    """Return ops of 20 µs every 200 µs, each with a launch and a kernel of 100 µs."""
    events: list[Event] = []
    for number in range(count):
        begin = at + 200 * number
        events += [
            span("cpu_op", "aten::mm", begin, begin + 20, **{"External id": first + number}),
            call(begin + 5, begin + 7, first + number, name),
            kernel("gemm", begin + 30, begin + 130, first + number, device=device),
        ]
    return events


def changed(events: list[Event], place: int, **members: float) -> list[Event]:
    """Return events, the one at a place with other members."""
    return [*events[:place], {**events[place], **members}, *events[place + 1 :]]


def lost(events: list[Event], *places: int) -> list[Event]:
    for place in places:
        events = changed(events, place, ts=0.0, dur=0.0)
    return events


class Case(NamedTuple):
    """What is found of a trace: problem and place of each record; windows, µs."""

    rank: int
    found: list[tuple[str, int]]
    windows_us: list[int]


def case(events: list[Event], *found: tuple[str, int], window_us: int = 500, **more: int) -> Case:
    return Case(CASES.add(events), [*found], [window_us, *more.values()])


LEFT_OUT = {
    "nothing": case(steps(EPOCH), window_us=700),
    "nothing, in a file whose times begin at 0": case(steps(0), window_us=700),
    "a kernel at 0": case(changed(steps(UPTIME), 11, ts=0), ("lost_time", 11)),
    "half of all, host and device": case(
        lost(steps(UPTIME), 6, 7, 8, 9, 10, 11),
        *[("lost_time", place) for place in range(6, 12)],
        window_us=300,
    ),
    "kernels and launches at 0 in a file of small times": case(
        lost(steps(5000), 9, 10, 11), *[("lost_time", place) for place in (9, 10, 11)]
    ),
    "AMD": case(lost(steps(EPOCH, name="hipLaunchKernel"), 11), ("lost_time", 11)),
    "an op at 0 on a CPU": case(
        [
            span("cpu_op", "aten::mm", UPTIME, UPTIME + 100),
            span("cpu_op", "aten::mm", UPTIME + 100, UPTIME + 150),
            span("cpu_op", "aten::add", 0, 0),
        ],
        ("lost_time", 2),
        window_us=150,
    ),
    "a negative time among those since 1970": case(
        changed(steps(EPOCH), 11, ts=-120.5), ("other_clock", 11)
    ),
    "a negative time of an op, a day after a boot": case(
        changed(steps(86_400 * SECOND), 9, ts=-5), ("other_clock", 9), window_us=700
    ),
    "another epoch": case(changed(steps(EPOCH), 11, ts=86_400 * SECOND), ("other_clock", 11)),
    "a launch of another epoch": case(
        changed(steps(EPOCH), 10, ts=EPOCH + 40 * 86_400 * SECOND),
        ("other_clock", 10),
        window_us=700,
    ),
    "years ahead": case(changed(steps(EPOCH), 11, ts=EPOCH + 10**15), ("other_clock", 11)),
    "half of all years ahead": case(
        [*steps(EPOCH), *steps(EPOCH + 10**15, first=10)],
        *[("other_clock", place) for place in range(12, 24)],
        window_us=700,
    ),
    "of many, on two devices": case(
        [*steps(EPOCH), *changed(steps(EPOCH + 800, device=1, first=10), 11, ts=1000)],
        ("other_clock", 23),
        window_us=700,
        other_window_us=500,
    ),
    "an hour": case(changed(steps(EPOCH), 11, dur=3600 * SECOND), ("outside_recording", 11)),
    "an hour in front": case(
        changed(steps(EPOCH), 11, ts=EPOCH - 3600 * SECOND), ("outside_recording", 11)
    ),
    "two minutes behind": case(
        changed(steps(EPOCH), 11, ts=EPOCH + 120 * SECOND), ("outside_recording", 11)
    ),
    "all kernels queued far ahead of a host that recorded 0.2 ms": case(
        [
            call(EPOCH, EPOCH + 200, 1, "cudaGraphLaunch"),
            *[
                kernel(
                    "gemm",
                    EPOCH + 300 * SECOND * n / 1000,
                    EPOCH + 300 * SECOND * (n + 1) / 1000,
                    1,
                )
                for n in range(10)
            ],
        ],
        window_us=3 * SECOND,
    ),
    "before its launch": case(changed(steps(EPOCH), 11, ts=EPOCH + 500), ("before_launch", 11)),
    "before its launch, by rounding": case(
        changed(steps(EPOCH), 11, ts=EPOCH + 604), window_us=674
    ),
    "clocks that disagree": case(
        [
            {**event, "ts": event["ts"] - 50} if event["cat"] == "kernel" else event
            for event in steps(EPOCH)
        ],
        window_us=700,
    ),
    "left over from warm-up": case(
        [
            kernel("gemm", UPTIME - 5 * SECOND, UPTIME - 5 * SECOND + 100, 901),
            kernel("gemm", UPTIME - 5 * SECOND + 200, UPTIME - 5 * SECOND + 250),
            *steps(UPTIME),
        ],
        ("left_over", 0),
        ("left_over", 1),
        window_us=700,
    ),
    "queued when the window opened": case(
        [kernel("gemm", UPTIME - 260, UPTIME - 150, 900), *steps(UPTIME, first=901)],
        window_us=990,
    ),
    "left over, and queued": case(
        [
            kernel("gemm", UPTIME - 9000, UPTIME - 8900, 900),
            kernel("gemm", UPTIME - 260, UPTIME + 20, 901),
            *steps(UPTIME, first=902),
        ],
        ("left_over", 0),
        window_us=990,
    ),
    "delivered twice": case(
        [*steps(EPOCH), steps(EPOCH)[8]], ("delivered_twice", 8), window_us=700
    ),
    "a replay whose kernels are alike": case(
        [
            call(EPOCH, EPOCH + 5, 1, "cudaGraphLaunch"),
            *[kernel("k", EPOCH + 9, EPOCH + 19, 1, **{"graph node id": n}) for n in range(3)],
        ],
        window_us=10,
    ),
    "a replay whose kernels are alike, without their nodes": case(
        [
            call(EPOCH, EPOCH + 5, 1, "cudaGraphLaunch"),
            *[kernel("k", EPOCH + 9, EPOCH + 19, 1) for _ in range(2)],
        ],
        window_us=10,
    ),
    "delivered three times, without a launch": case(
        [
            kernel("k", EPOCH, EPOCH + 10, 4),
            *[kernel("k", EPOCH + 10, EPOCH + 19, 5) for _ in range(3)],
        ],
        ("delivered_twice", 1),
        ("delivered_twice", 2),
        window_us=19,
    ),
    "alike, and nothing tells that they are one": case(
        [*[kernel("k", EPOCH, EPOCH + 10) for _ in range(2)]], window_us=10
    ),
    "two hosts whose clocks are years apart": case(
        [
            *[event | {"pid": 1 if event["cat"] == "kernel" else 7} for event in steps(EPOCH)],
            *steps(UPTIME, device=2, first=20),
        ],
        window_us=700,
        other_window_us=700,
    ),
    "outlasts the next": case(
        changed(steps(EPOCH), 2, dur=450), ("outlasts_next", 2), window_us=700
    ),
    "outlasts the next by a rounding": case(changed(steps(EPOCH), 2, dur=205), window_us=700),
    "outlasts the next, which is of a graph": case(
        [
            *changed(steps(EPOCH), 11, dur=450),
            call(EPOCH + 640, EPOCH + 650, 90, "cudaGraphLaunch"),
            kernel("gemm", EPOCH + 700, EPOCH + 720, 90),
        ],
        window_us=1050,
    ),
    "outlasts the next on AMD": case(
        changed(steps(EPOCH, name="hipExtLaunchKernel"), 2, dur=900),
        ("outlasts_next", 2),
        window_us=700,
    ),
    "dependent launches": case(
        changed(steps(EPOCH, name="cudaLaunchKernelExC"), 2, dur=204), window_us=700
    ),
    "a dependent launch that outlasts the next": case(
        changed(steps(EPOCH, name="cudaLaunchKernelExC"), 2, dur=450),
        ("outlasts_next", 2),
        window_us=700,
    ),
    "branches of a graph": case(
        [
            call(EPOCH, EPOCH + 5, 1, "cudaGraphLaunch"),
            kernel("k", EPOCH + 10, EPOCH + 500, 1),
            kernel("k", EPOCH + 20, EPOCH + 120, 1),
        ],
        window_us=490,
    ),
    "two streams": case(
        [
            *steps(EPOCH),
            call(EPOCH + 1, EPOCH + 2, 90),
            kernel("k", EPOCH + 3, EPOCH + 630, 90, stream=8),
        ],
        window_us=727,
    ),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_found(asked: AskedByRank, name: str) -> None:
    rank, found, windows_us = LEFT_OUT[name]
    assert asked.table(rank, "implausible", "problem, event_id", "event_id") == found
    timeline = asked.rows(rank, "timeline")
    assert [row["window_ns"] for row in timeline] == [one * 1000 for one in windows_us]
    left = [row[0] for row in asked.table(rank, "left_out", "event_id", "event_id")]
    assert left == [place for problem, place in found if problem != "outlasts_next"]
    (health,) = [
        row for row in asked.rows(rank, "health") if row["metric"] == "implausible_records"
    ]
    assert (health["value"], health["severity"]) == (len(found), "warn" if found else "ok")
    counted, whole = asked.table(rank, "trace", "complete_count, event_count - metadata_count")[0]
    assert counted == whole - len(left)


def test_what_outlasts_the_next_counts_until_it_begins(asked: AskedByRank) -> None:
    rank = LEFT_OUT["outlasts the next"].rank
    assert asked.table(rank, "implausible", "ts_ns, dur_ns, counted_ns") == [
        ((EPOCH + 30) * 1000, 450_000, 200_000)
    ]
    (row,) = asked.rows(rank, "timeline")
    assert (row["busy_ns"], row["idle_ns"]) == (500_000, 200_000)


def test_clocks_that_disagree_are_a_warning(asked: AskedByRank) -> None:
    rows = asked.rows(LEFT_OUT["clocks that disagree"].rank, "health")
    (row,) = [row for row in rows if row["metric"] == "started_before_launch_returned"]
    assert (row["value"], row["severity"]) == (4, "warn")
    assert "4 of them before it begins: the clocks of host and device disagree" in row["meaning"]


def told(path: Path) -> tuple[dict[str, str], list[str], tracekit.Result]:
    with tracekit.open(path, cache=False) as trace:
        health = {row["metric"]: row["meaning"] for row in trace.health().to_dicts()}
        return health, sentences(trace.query("verdict")), trace.query("timeline")


def test_lost_times_are_named_first_with_what_helps(tiny_trace: Callable[..., Path]) -> None:
    health, said, _ = told(tiny_trace(lost(steps(UPTIME), 10, 11)))
    hint = "CUPTI of CUDA 12.6 to 13.0 loses them: use CUDA 13.0 update 1 or later"
    assert health["implausible_records"] == (
        "records that are left out of every figure, or cut: 2 whose times the profiler lost (they "
        f"are 0; {hint}); see table implausible"
    )
    assert said[0].startswith("Caution: ")
    assert "among them implausible_records 2 (" in said[0]
    assert hint in said[0]
    health, _, _ = told(tiny_trace(lost(steps(UPTIME, name="hipLaunchKernel"), 10, 11)))
    assert "CUDA" not in health["implausible_records"]


def test_times_that_could_not_be_read_are_named_with_them(tiny_trace: Callable[..., Path]) -> None:
    from_zero = changed(steps(EPOCH), 11, ts=0, dur=EPOCH + 700)
    centuries = changed(from_zero, 8, ts=2 * 10**16)
    health, said, timeline = told(tiny_trace(centuries))
    assert health["implausible_records"] == (
        "records that are left out of every figure, or cut: 1 whose times the profiler lost (a "
        "start of 0); 1 with times that no recording has (ts is out of range); see table "
        "implausible"
    )
    assert "implausible_records" in said[0]
    assert timeline.column("window_ns") == [300_000]


def test_without_one_usable_time_no_figure_is_made(tiny_trace: Callable[..., Path]) -> None:
    events = lost(steps(UPTIME), 2, 5, 8, 11)
    path = tiny_trace(events)
    with tracekit.open(path, cache=False) as trace:
        assert not trace.query("timeline").rows
        (reason,) = set(trace.query("unrecorded").column("reason"))
    assert reason.startswith(
        "no work of a device has a usable time: all 4 records of it are ones whose times the "
        "profiler lost"
    )


def call_of(name: str, number: int, parent: int | None, start: int, end: float) -> Event:
    ids = {"Python id": number, "Python parent id": parent}
    return span("python_function", name, start, end, **ids)


def launched(at: int, correlation: int) -> list[Event]:
    return [call(at, at + 5, correlation), kernel("gemm", at + 10, at + 60, correlation)]


UNRETURNED = CASES.add(
    [
        # An exception leaves Encoder_0 and what it had called; a generator is left in the loop.
        call_of("train.py(9): step", 1, None, 0, 400),
        call_of("nn.Module: Encoder_0", 2, 1, 10, 5000),
        call_of("nn.Module: Linear_0", 3, 2, 15, 5000),
        *launched(20, 1),
        call_of("nn.Module: Head_0", 4, 1, 200, 350),
        *launched(210, 2),
        call_of("train.py(20): main", 5, None, 1000, 5000),
        call_of("loader.py(3): batches", 6, 5, 1010, 5000),
        call_of("nn.Module: Head_0", 7, 5, 1100, 1200),
        *launched(1110, 3),
        # These still ran at the end: each in the one before, but for a rounding.
        call_of("nn.Module: Head_0", 8, 5, 4000, 4999.5),
        call_of("nn.Module: Linear_1", 9, 8, 4100, 5000),
        *launched(4200, 4),
    ]
)


def test_a_python_call_that_never_returned_counts_until_its_caller_goes_on(
    asked: AskedByRank,
) -> None:
    found = asked.table(UNRETURNED, "implausible", "event_id, problem, counted_ns", "event_id")
    assert found == [
        (1, "unreturned", 190_000),
        (2, "unreturned", 185_000),
        (9, "unreturned", 90_000),
    ]
    modules = {
        row["module_path"]: row["total_wall_ns"] for row in asked.rows(UNRETURNED, "modules")
    }
    assert modules == {
        "Encoder_0": 50_000,
        "Encoder_0/Linear_0": 50_000,
        "Head_0": 150_000,
        "Head_0/Linear_1": 50_000,
    }
    health = {row["metric"]: row for row in asked.rows(UNRETURNED, "health")}
    assert health["implausible_records"]["value"] == 0
    assert (health["unreturned_calls"]["value"], health["unreturned_calls"]["severity"]) == (
        3,
        "note",
    )


def test_a_comparison_names_what_one_side_has_of_them(tiny_trace: Callable[..., Path]) -> None:
    events = steps(EPOCH)
    sides = tiny_trace(events, name="a.json"), tiny_trace(lost(events, 2), name="b.json")
    with tracekit.open(sides[0], cache=False) as base, tracekit.open(sides[1], cache=False) as new:
        found = tracekit.compare(base, new).setup
    assert ("implausible_records", "0", "1") in [(one.name, one.base, one.new) for one in found]
