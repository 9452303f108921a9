"""What lies inside of what on the CPU, against a stack; small traces: tests/cases/cpu_work.case."""

from __future__ import annotations

import random
from collections.abc import Sequence

from cases_as_ranks import AskedByRank, Cases
from traces_by_hand import Event, span

Span = tuple[str, int, int, int]


NESTING = """(
    SELECT n.trace_id, e.name, p.name AS parent, n.depth
    FROM nesting AS n
    JOIN event AS e ON n.trace_id = e.trace_id AND n.event_id = e.event_id
    LEFT JOIN event AS p ON n.trace_id = p.trace_id AND n.parent_id = p.event_id
)"""
CASES = Cases()
asked = CASES.fixture()


def nesting(asked: AskedByRank, rank: int) -> dict[str, tuple[str | None, int]]:
    rows = asked.table(rank, NESTING, "name, parent, depth")
    return {name: (parent, depth) for name, parent, depth in rows}


def written(spans: Sequence[Span]) -> list[Event]:
    return [span("cpu_op", name, ts, ts + dur, tid) for name, tid, ts, dur in spans]


def at_random() -> list[Span]:
    numbers = random.Random(7)
    return [
        (f"op{number}", numbers.randint(1, 2), numbers.randint(0, 300), numbers.randint(0, 60))
        for number in range(200)
    ]


AT_RANDOM = CASES.add(written(at_random()))


def test_it_is_what_a_stack_would_say(asked: AskedByRank) -> None:
    spans = at_random()
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
    assert nesting(asked, AT_RANDOM) == wanted
