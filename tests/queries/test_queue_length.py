"""Analysis queue_length: a device event is queued up to its start, and not at it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from traces_by_hand import call, kernel

import tracekit


def test_what_starts_when_the_next_is_launched_was_not_queued_with_it(
    tiny_trace: Callable[..., Path],
) -> None:
    events = [
        call(10, 12, 1),
        kernel("first", 20, 25, 1),
        call(20, 22, 2),
        kernel("second", 30, 35, 2),
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        (row,) = trace.query("queue_length").to_dicts()
        parts = trace.query("queue_over_time", points=4).to_dicts()
    assert (row["span_ns"], row["mean_length"], row["max_length"]) == (20_000, 1.0, 1)
    assert [part["max_length"] for part in parts] == [1, 1, 1, 1]
