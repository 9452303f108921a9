"""Analyses of memory: what held it at the peak and over time, and of which category it was."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import Event

import tracekit


def span(name: str, start: float, end: float, category: str = "user_annotation") -> Event:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1,
            "ts": start, "dur": end - start}  # fmt: skip


def blocks(*lives: tuple[str, int, float, float | None]) -> Iterator[Event]:
    """Yield the allocator's events of blocks: name, bytes, from and to when; 0: from before."""
    moments = [(start, place, size) for place, (_, size, start, _) in enumerate(lives) if start]
    moments += [(end, place, -size) for place, (_, size, _, end) in enumerate(lives) if end]
    allocated = sum(size for _, size, start, _ in lives if not start)
    for at, place, change in sorted(moments):
        allocated += change
        args = {"Addr": 4096 + place, "Bytes": change, "Total Allocated": allocated,
                "Total Reserved": 5000, "Device Type": 1, "Device Id": 0}  # fmt: skip
        yield {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1,
               "ts": at, "args": args}  # fmt: skip


TWO_STEPS = [
    span("aten::randn", 1, 9, "cpu_op"),
    *(
        span(f"## {phase} ##", step + start, step + start + 20)
        for step in (0, 100)
        for phase, start in (("forward", 20), ("backward", 40), ("optimizer", 60))
    ),
    *(span("aten::mm", step + at, step + at + 9, "cpu_op") for step in (0, 100) for at in (21, 41)),
]

LIVES = (
    ("(before the recording)", 400, 0, 190),
    ("parameters", 1000, 2, None),
    ("unknown", 3, 3, 165),
    ("activations", 100, 22, 55),
    ("temporary", 10, 23, 30),
    ("unknown", 7, 24, None),
    ("gradients", 50, 42, 161),
    ("temporary", 20, 43, 50),
    ("optimizer state", 30, 62, None),
    ("temporary", 5, 63, 64),
    ("activations", 100, 122, 155),
    ("unknown", 60, 185, None),
)


@pytest.fixture
def trained(tiny_trace: Callable[..., Path]) -> Iterator[tracekit.Trace]:
    path = tiny_trace([*TWO_STEPS, *blocks(*LIVES)])
    with tracekit.open(path, cache=False) as trace:
        yield trace


def test_what_a_block_was_for_follows_from_when_it_lived(trained: tracekit.Trace) -> None:
    told = trained.sql("SELECT category FROM memory_event WHERE bytes > 0 ORDER BY place")
    assert told.column("category") == [name for name, _, start, _ in LIVES if start]


def test_the_rows_of_the_peak_add_up_to_it(trained: tracekit.Trace) -> None:
    # At 122: all but the first activations, the temporary ones and what came later.
    (peak,) = trained.query("memory_peaks").to_dicts()
    assert (peak["peak_at_ns"], peak["phase"]) == (121_000, "forward")
    assert (peak["allocated_bytes"], peak["before_bytes"], peak["block_count"]) == (1590, 400, 6)
    assert (peak["reserved_bytes"], peak["unused_bytes"]) == (5000, 3410)
    rows = trained.query("memory_peak").to_dicts()
    held = Counter[str]()
    for row in rows:
        held[row["category"]] += row["bytes"]
    assert held == {
        "parameters": 1000,
        "(before the recording)": 400,
        "activations": 100,
        "gradients": 50,
        "optimizer state": 30,
        "unknown": 10,
    }
    assert [(row["op"], row["phase"]) for row in rows if row["category"] == "activations"] == [
        ("aten::mm", "forward")
    ]
    holders = trained.query("memory_holders").to_dicts()
    sums = Counter[str]()
    for row in holders:
        sums[row["dimension"]] += row["bytes"]
    assert sums == dict.fromkeys(("category", "phase", "module", "op", "line"), 1590)
    assert {r["holder"]: r["bytes"] for r in holders if r["dimension"] == "category"} == held


def test_over_time_the_categories_add_up(trained: tracekit.Trace) -> None:
    rows = trained.query("memory_timeline", points=3).to_dicts()
    sums: defaultdict[tuple[int, int], int] = defaultdict(int)
    for row in rows:
        sums[row["at_ns"], row["allocated_bytes"]] += row["bytes"]
    assert all(allocated == total for (_, allocated), total in sums.items())
    assert [at_ns for at_ns, _ in sums] == [42_000, 121_000, 184_000]
    last = {row["category"]: row["bytes"] for row in rows if row["at_ns"] == 184_000}
    assert (last["unknown"], last["gradients"]) == (67, 0)


def test_releases_that_are_not_in_the_file_are_told(tiny_trace: Callable[..., Path]) -> None:
    """What came to the same address ends a block; what the total lacks besides is a row too."""
    events = [*blocks(("a", 10, 1, None), ("b", 20, 2, None), ("c", 30, 3, None))]
    events[1]["args"]["Addr"] = 4096
    events[1]["args"]["Total Allocated"] = 20
    events[2]["args"]["Total Allocated"] = 41
    with tracekit.open(tiny_trace([*TWO_STEPS, *events]), cache=False) as trace:
        assert trace.query("memory_peaks").column("before_bytes") == [41 - 50]
        assert sum(trace.query("memory_peak").column("bytes")) == 41


def plainly_read(path: Path) -> dict[bool, tuple[int, int, int]]:
    """Return by whether it is the host: the peak, what is known of it, and of how many blocks."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    live: defaultdict[bool, dict[int, int]] = defaultdict(dict)
    peaks: dict[bool, tuple[int, int, int]] = {}
    for event in json.loads(text)["traceEvents"]:
        if event.get("name") == "[memory]":
            args = event["args"]
            is_host = args["Device Type"] == 0
            held = live[is_host]
            held.pop(args["Addr"], None)
            if args["Bytes"] > 0:
                held[args["Addr"]] = args["Bytes"]
            if args["Total Allocated"] > peaks.get(is_host, (-1,))[0]:
                peaks[is_host] = args["Total Allocated"], sum(held.values()), len(held)
    return peaks


@pytest.mark.parametrize("name", ["tl_h100_owlv2_large", "tl_h100_qwen", "tl_mi300_qwen"])
def test_peaks_of_public_traces(name: str, public_traces: Path, opened: Any) -> None:
    path = public_traces / f"{name}.json.gz"
    trace = opened(path)
    rows = {row["device"] == "cpu": row for row in trace.query("memory_peaks").to_dicts()}
    wanted = plainly_read(path)
    assert rows.keys() == wanted.keys()
    for is_host, (allocated, known, count) in wanted.items():
        row = rows[is_host]
        assert (row["allocated_bytes"], row["block_count"]) == (allocated, count)
        assert row["before_bytes"] == allocated - known
        held = [
            one["bytes"]
            for one in trace.query("memory_peak").to_dicts()
            if (one["device"] == "cpu") == is_host
        ]
        assert sum(held) == allocated
