"""Sweeps of the replay over a few edges; on every trace: test_critical_path.py."""

import duckdb
import pytest

from tracekit.analysis.passes.graph_sweeps import (
    GAINS,
    MOMENTS,
    PATH,
    REPLAY,
    RUN_STEPS,
    create_swept,
)


def swept(sweep, rows):
    """Return the result of a sweep over edges."""
    values = ", ".join(
        "(" + ", ".join("NULL::BIGINT" if one is None else f"{one}::BIGINT" for one in row) + ")"
        for row in rows
    )
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS session")
        create_swept(connection, "session.main.made", sweep, f"FROM (VALUES {values}) AS edge")
        return connection.execute("FROM session.main.made ORDER BY ALL").fetchall()


# Number, source, target, weight, recorded time of the target, and whether it is an end: from node 0
# via 1 or 2 (slower) to the end 3.
EDGES_BY_HAND = [
    (0, 0, 1, 5, 10, 0),
    (1, 0, 2, 20, 20, 0),
    (2, 1, 3, 7, 30, 1),
    (3, 2, 3, 0, 30, 1),
]


def test_a_replay_by_hand():
    rows = [(0, 0, 0, None), (1, 5, 13, 0), (2, 20, 20, 1), (3, 20, 20, 3)]
    assert swept(REPLAY, EDGES_BY_HAND) == rows


def test_a_replay_of_edges_in_a_circle():
    """The node that was recorded first comes first."""
    circle = [(0, 1, 2, 5, 10, 0), (1, 2, 1, 5, 20, 1)]
    assert [row[:2] for row in swept(REPLAY, circle)] == [(1, 5), (2, 0)]


def test_gains_by_hand():
    """Without the longest edge, the end comes when the other way does."""
    groups = [(1, *[None] * 5, 0), (0, *[None] * 5, 1), (2, *[None] * 5, 2)]
    rows = [*((*edge, None) for edge in EDGES_BY_HAND), *groups]
    assert swept(GAINS, rows) == [(0, 8), (1, 0), (2, 0)]


def test_moments_by_hand():
    """Group 0 has the time of its first node, other groups of their last."""
    groups = {1: 0, 2: 0, 3: 1}
    rows = [
        (source, target, at_ns, groups[target], *(weight * factor for factor in range(5)))
        for _, source, target, weight, at_ns, _ in EDGES_BY_HAND
    ]
    assert swept(MOMENTS, rows) == [(0, 0, 5, 10, 15, 20), (1, 0, 20, 40, 60, 80)]


def test_steps_by_hand():
    """Two steps end at 30 and 70 µs, the second with 20 of 40 µs of the host; eight more follow.

    Ten take 70 + 8 × 40 µs as recorded, and with twice the host's time 90 + 8 × 60: 57 µs each.
    """
    # Source, target, recorded, trace, bound, steps; weights recorded, plain, low, high; host.
    edges = [
        (0, 1, 0, 3, 0, 2, 0, 0, 0, 0, 0),
        (1, 2, 30_000, 3, 1, 2, 30_000, 30_000, 30_000, 30_000, 0),
        (2, 3, 70_000, 3, 2, 2, 40_000, 40_000, 30_000, 50_000, 20_000),
    ]

    def made(wanted_ns):
        return list(swept(RUN_STEPS, [(*edge, wanted_ns) for edge in edges])[0])

    *steps, factor = made(57_000)
    assert steps == [3, 39_000, 39_000, 30_000, 48_000, 39_000]
    assert factor == pytest.approx(2_000_000, abs=100)
    assert made(None)[-1] is None
    # The device work alone takes as long as the measured step.
    assert made(20_000)[-1] == 1_000_000


def test_a_path_by_hand():
    binding = [(0, 0, 1, None), (1, 0, 2, None), (3, 2, 3, 7)]
    assert swept(PATH, binding) == [(7, 0, 3), (7, 1, 1)]


def test_an_edge_to_the_least_number():
    assert [row[:2] for row in swept(REPLAY, [(0, 5, 1, 7, 10, 1)])] == [(1, 7), (5, 0)]


def test_numbers_with_large_holes_are_refused():
    with pytest.raises(duckdb.OutOfMemoryException):
        swept(REPLAY, [(0, 0, 1 << 40, 5, 10, 1)])


def test_no_edge_gives_no_row():
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS session")
        columns = ", ".join(f"0::BIGINT AS c{number}" for number in range(6))
        create_swept(connection, "session.main.made", REPLAY, f"SELECT {columns} WHERE FALSE")
        assert connection.execute("FROM session.main.made").fetchall() == []
