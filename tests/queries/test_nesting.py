"""What lies inside of what on the CPU, also where events do not nest cleanly."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import tracekit

Write = Callable[..., Path]
Span = tuple[str, int, int, int]


def nesting(path: Path) -> dict[str, tuple[str | None, int]]:
    with tracekit.open(path, cache=False) as trace:
        rows = trace.sql(
            "SELECT e.name, p.name, n.depth FROM nesting AS n"
            " JOIN event AS e ON n.trace_id = e.trace_id AND n.event_id = e.event_id"
            " LEFT JOIN event AS p ON n.trace_id = p.trace_id AND n.parent_id = p.event_id"
        ).rows
    return {name: (parent, depth) for name, parent, depth in rows}


def written(tiny_trace: Write, spans: Sequence[Span], category: str = "cpu_op") -> Path:
    return tiny_trace(
        [
            {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur}
            for name, tid, ts, dur in spans
        ]
    )


def test_events_nest_by_thread(tiny_trace: Write) -> None:
    spans = [
        ("a", 1, 0, 100),
        ("b", 1, 10, 50),
        ("c", 1, 20, 10),
        ("d", 1, 70, 10),
        ("e", 2, 20, 5),
    ]
    assert nesting(written(tiny_trace, spans)) == {
        "a": (None, 0),
        "b": ("a", 1),
        "c": ("b", 2),
        "d": ("a", 1),
        "e": (None, 0),
    }


def test_what_crosses_is_inside_of_what_is_open_when_it_begins(tiny_trace: Write) -> None:
    spans = [("a", 1, 0, 10), ("late", 1, 5, 10), ("behind", 1, 12, 2), ("after", 1, 15, 1)]
    assert nesting(written(tiny_trace, spans)) == {
        "a": (None, 0),
        "late": ("a", 1),
        "behind": ("late", 1),
        "after": (None, 0),
    }


def test_of_equal_starts_the_longer_is_outside(tiny_trace: Write) -> None:
    spans = [("short", 1, 0, 5), ("long", 1, 0, 9), ("mark", 1, 5, 0), ("inside", 1, 5, 1)]
    assert nesting(written(tiny_trace, spans)) == {
        "long": (None, 0),
        "short": ("long", 1),
        "mark": ("inside", 2),
        "inside": ("long", 1),
    }


def test_it_is_what_a_stack_would_say(tiny_trace: Write) -> None:
    numbers = random.Random(7)
    spans = [
        (f"op{number}", numbers.randint(1, 2), numbers.randint(0, 300), numbers.randint(0, 60))
        for number in range(200)
    ]
    order = sorted(range(200), key=lambda i: (spans[i][2], -spans[i][3], i))
    wanted: dict[str, tuple[str | None, int]] = {}
    for place, inner in enumerate(order):
        name, tid, ts, _ = spans[inner]
        is_open = [
            spans[i][0]
            for i in order[:place]
            if spans[i][1] == tid and spans[i][2] + spans[i][3] > ts
        ]
        wanted[name] = (is_open[-1] if is_open else None, len(is_open))
    assert nesting(written(tiny_trace, spans)) == wanted
