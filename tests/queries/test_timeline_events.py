"""Analysis timeline_events: the longest events alone, the rest in tiles, and none twice or lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from traces_by_hand import kernel

import tracekit

REPO = Path(__file__).resolve().parents[2]
Opened = Callable[[Path], tracekit.Trace]


def test_the_longest_alone_and_the_rest_in_tiles(tiny_trace: Callable[..., Path]) -> None:
    """100 µs cut into 2: of kernels 40, 30, 1, 2, 3 µs long two are alone, the rest 2 tiles."""
    events = [
        kernel("long", 0, 40),
        kernel("short", 41, 42),
        kernel("short", 43, 45),
        kernel("next longest", 50, 80),
        kernel("short", 97, 100),
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        rows = trace.query("timeline_events", limit=2, tiles=2).to_dicts()
    keys = ("name", "start_ns", "dur_ns", "event_count", "kernel_ns")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("long", 0, 40_000, 1, 40_000),
        (None, 41_000, 4_000, 2, 3_000),
        ("next longest", 50_000, 30_000, 1, 30_000),
        (None, 97_000, 3_000, 1, 3_000),
    ]


@pytest.mark.parametrize("limit", [0, 1, 1_000])
def test_every_event_is_there_once(limit: int, opened: Opened) -> None:
    trace = opened(REPO / "sample_traces" / "pretrain_R+Z3")
    counts: Counter[tuple[int, str]] = Counter()
    for row in trace.query("timeline_events", limit=limit, tiles=64).to_dicts():
        counts[row["rank"], row["device"]] += row["event_count"]
    timeline = trace.query("timeline").to_dicts()
    assert counts == {(row["rank"], row["device"]): row["event_count"] for row in timeline}


def test_durations_add_up_to_those_of_the_classes(opened: Opened) -> None:
    trace = opened(REPO / "sample_traces" / "serve_vllm")
    for limit in (0, 10):
        events = trace.query("timeline_events", limit=limit)
        classes = trace.query("kernel_classes")
        assert sum(events.column("kernel_ns")) == sum(classes.column("kernel_ns"))


def test_a_thousand_events_of_no_length(tiny_trace: Callable[..., Path]) -> None:
    with tracekit.open(tiny_trace([kernel("k", 5, 5) for _ in range(1_000)]), cache=False) as trace:
        (alone, tile) = trace.query("timeline_events", limit=1).to_dicts()
    assert {alone["event_count"], tile["event_count"]} == {1, 999}
