"""Which stream waits for which event, where no row of category cuda_sync tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hta_limits import recorded, stream_wait
from scenarios import BASES
from simulated_machine import simulate
from simulated_program import Machine
from traces_by_hand import Event, call, kernel

import tracekit

EDGES = """
    SELECT s.start_ns, s.stream, t.start_ns, t.stream, e.known_by
    FROM graph_edge AS e
    INNER JOIN graph_span AS s ON e.source_node // 2 = s.span_id
    INNER JOIN graph_span AS t ON e.target_node // 2 = t.span_id
    WHERE e.kind = 'event'
"""

Edge = tuple[int, int, int, int]


def edges(path: Path) -> dict[Edge, str]:
    """Return who waits for whom: start and stream of the one and of the other; how it is known."""
    with tracekit.open(path, cache=False) as trace:
        return {(a, b, c, d): known_by for a, b, c, d, known_by in trace.sql(EDGES).rows}


def work(
    launch: float, start: float, end: float, number: int, name: str, *, stream: int
) -> list[Event]:
    return [call(launch, launch + 1, number), kernel(name, start, end, number, stream=stream)]


def without_rows(events: list[Event]) -> list[Event]:
    return [event for event in events if event["cat"] != "cuda_sync"]


FORK = [
    *work(0, 10, 20, 1, "a", stream=7),
    recorded(3, 2),
    *stream_wait(5, 3, 20, 7, 2),
    # Another one of the stream whose event it is, before the one that waits.
    *work(8, 21, 60, 4, "b", stream=7),
    *work(12, 22, 40, 5, "c", stream=20),
    # The join, and at once the next fork.
    recorded(15, 6),
    *stream_wait(17, 7, 7, 20, 6),
    recorded(19, 8),
    *stream_wait(21, 9, 20, 7, 8),
    *work(24, 61, 70, 10, "d", stream=7),
    *work(28, 62, 80, 11, "e", stream=20),
]

WAITS = {(10_000, 7, 22_000, 20), (22_000, 20, 61_000, 7), (21_000, 7, 62_000, 20)}
"""c waits for a, not for b; d for c; e for b."""


@pytest.mark.parametrize("has_rows", [True, False])
def test_forks_and_joins_are_told_by_their_calls(
    tiny_trace: Callable[..., Path], has_rows: bool
) -> None:
    found = edges(tiny_trace(FORK if has_rows else without_rows(FORK)))
    assert found == dict.fromkeys(WAITS, "recorded" if has_rows else "inferred")


def test_processes_of_one_file_wait_for_their_own_streams(tiny_trace: Callable[..., Path]) -> None:
    """Files of nsys have several; both wait, and the other one's work ends later in between."""
    events = [
        event | ({"pid": rank + 1} if event["cat"] == "cuda_runtime" else {})
        for rank in (0, 1)
        for event in (
            call(1, 2, rank + 1),
            kernel("k", 10, 40 + 5 * rank, rank + 1, stream=7 + rank, device=rank),
            call(3, 46, rank + 11, "cudaStreamSynchronize"),
        )
    ]
    statement = """
        SELECT s.device, t.pid FROM graph_edge AS e
        INNER JOIN graph_span AS s ON e.source_node // 2 = s.span_id
        INNER JOIN graph_span AS t ON e.target_node // 2 = t.span_id
        WHERE e.kind = 'sync' ORDER BY ALL
    """
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        assert [*trace.sql(statement).rows] == [("0", 1), ("1", 2)]


@pytest.mark.parametrize("name", ["side stream", "side stream, host bound", "four ranks"])
def test_what_rows_told_comes_back_without_them(tmp_path: Path, name: str) -> None:
    machine = Machine(**BASES[name])
    with_rows, without = (
        edges(simulate(one).write(tmp_path / str(one.has_event_rows))[0])
        for one in (machine, machine.changed(has_event_rows=False))
    )
    told = {edge for edge, known_by in with_rows.items() if known_by == "recorded"}
    assert len(told) >= 20
    assert len(told & without.keys()) >= 0.99 * len(told)
    assert set(without.values()) == {"inferred"}
