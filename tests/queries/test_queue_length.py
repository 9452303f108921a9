"""Analysis queue_length: a device event is queued up to its start, and not at it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from traces_by_hand import call, kernel

import tracekit


@pytest.mark.parametrize(("after_ns", "longest"), [(0, 1), (1, 2), (2_000, 2)])
@pytest.mark.parametrize("tid", [1, 2])
def test_a_call_counts_from_its_start(
    tiny_trace: Callable[..., Path], after_ns: int, longest: int, tid: int
) -> None:
    """Each kernel starts so long after the next call began, which takes 2 µs, on either thread."""
    events = []
    for place, begun in enumerate((10, 20, 30)):
        started = begun + 10 + after_ns / 1_000
        events += [
            call(begun, begun + 2, place + 1, tid=tid if place == 1 else 1),
            kernel("one", started, started + 3, place + 1),
        ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        (row,) = trace.query("queue_length").to_dicts()
        parts = trace.query("queue_over_time", points=1).to_dicts()
    # Each is queued for 10 µs and so long.
    assert row["mean_length"] == 3 * (10_000 + after_ns) / row["span_ns"]
    assert [row["max_length"], parts[0]["max_length"]] == [longest, longest]
