"""The replay: it gives a recorded run back, and scales as a whole."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from every_trace import BUNDLED, PATHS, on_every_trace

import tracekit
from tracekit.analysis import graph_sweeps
from tracekit.analysis.graph_sweeps import GAINS, MOMENTS, PATH, REPLAY, create_swept

Opened = Callable[[Path], tracekit.Trace]

WORST_PCT = 3.3
EDGES = "SELECT edge_id, source_node, target_node, {weight}, target_ns, 0 FROM graph_edge"


def replayed(trace: tracekit.Trace, weight: str) -> dict[int, int]:
    """When each node comes if edges have these weights."""
    connection = trace.connection
    trace.sql("SELECT 1 FROM graph_edge LIMIT 1")
    statement = EDGES.format(weight=weight) + " ORDER BY edge_id"
    create_swept(connection, "session.main.tried", REPLAY, statement)
    return dict(connection.execute("SELECT node, at_ns FROM session.main.tried").fetchall())


@on_every_trace
def test_the_unchanged_run_comes_back(opened: Opened, path: Path) -> None:
    for row in opened(path).query("replay").to_dicts():
        share = 100 * row["unexplained_ns"] / row["recorded_ns"]
        assert abs(row["error_pct"]) <= WORST_PCT + share, row


def test_the_mean_error_is_small(opened: Opened) -> None:
    bundled = [path for path in BUNDLED if path in PATHS]
    rows = [row for path in bundled for row in opened(path).query("replay").to_dicts()]
    errors = [
        abs(row["error_pct"]) for row in rows if row["unexplained_ns"] <= 0.05 * row["recorded_ns"]
    ]
    assert sum(errors) / len(errors) <= 1


@on_every_trace
def test_what_is_carried_over_is_all_that_was_missing(opened: Opened, path: Path) -> None:
    trace = opened(path)
    recorded = dict(
        trace.sql(
            "SELECT target_node, target_ns - (SELECT min(start_ns) FROM graph_span) "
            "FROM graph_edge GROUP BY ALL"
        ).rows
    )
    found = replayed(trace, "weight_ns + rest_ns")
    # Where the clocks of ranks are apart, what another rank did may come too late.
    if trace.sql("SELECT count(*) FROM trace").rows == [(1,)]:
        assert {node: found[node] for node in recorded} == recorded
    twice = replayed(trace, "2 * (weight_ns + rest_ns)")
    assert twice == {node: 2 * at_ns for node, at_ns in found.items()}


def graph_of(chance: random.Random, *, is_circular: bool) -> list[tuple[int, ...]]:
    """Random edges over 30 nodes, of which some lead back where they may."""
    edges: list[tuple[int, ...]] = []
    for number in range(80):
        source, target = sorted(chance.sample(range(-3, 30), 2))
        if is_circular and chance.random() < 0.1:
            source, target = target, source
        weight = chance.choice([0, 0, 5, 17, -2])
        edges.append((number, source, target, weight, 10 * target, int(target == 29)))
    return edges


def swept(
    monkeypatch: pytest.MonkeyPatch, sweep: str, statement: str, *, compiled: bool
) -> list[Any]:
    with duckdb.connect() as connection, monkeypatch.context() as patch:
        connection.execute("ATTACH ':memory:' AS session")
        if not compiled:
            patch.setattr(graph_sweeps, "compiled_sweeps", lambda: None)
        create_swept(connection, "session.main.made", sweep, statement)
        return connection.execute("FROM session.main.made ORDER BY ALL").fetchall()


def values(rows: Sequence[tuple[int | None, ...]]) -> str:
    said = ", ".join(
        "(" + ", ".join("NULL" if one is None else f"{one}::BIGINT" for one in row) + ")"
        for row in rows
    )
    return f"FROM (VALUES {said}) AS edge"


@pytest.mark.parametrize("seed", range(4))
def test_sweeps_are_the_same_in_c_and_in_python(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if graph_sweeps.compiled_sweeps() is None:
        pytest.skip("the sweeps are not compiled")
    edges = graph_of(random.Random(seed), is_circular=seed % 3 == 0)
    binding = {edge[2]: edge for edge in reversed(edges)}
    path = [(*edge[:3], 7 if edge[2] == 29 else None) for edge in binding.values()]
    members = [
        (number, None, None, None, None, None, group)
        for group in range(3)
        for number in range(group, 80, 7)
    ]
    weighed = [
        (source, target, at_ns, target % 5 if target > 9 else None, *(weight * k for k in range(5)))
        for _, source, target, weight, at_ns, _ in edges
    ]
    tried = {
        REPLAY: values(edges),
        MOMENTS: values(weighed),
        PATH: values(path),
        GAINS: values([(*edge, None) for edge in edges] + members),
    }
    for sweep, statement in tried.items():
        in_c = swept(monkeypatch, sweep, statement, compiled=True)
        assert in_c == swept(monkeypatch, sweep, statement, compiled=False), sweep
        assert in_c


def test_an_edge_to_the_least_number(monkeypatch: pytest.MonkeyPatch) -> None:
    if graph_sweeps.compiled_sweeps() is None:
        pytest.skip("the sweeps are not compiled")
    statement = values([(0, 5, 1, 7, 10, 1)])
    for compiled in (True, False):
        found = swept(monkeypatch, REPLAY, statement, compiled=compiled)
        assert sorted(row[:2] for row in found) == [(1, 7), (5, 0)]


def test_numbers_with_large_holes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    if graph_sweeps.compiled_sweeps() is None:
        pytest.skip("the sweeps are not compiled")
    statement = values([(0, 0, 1 << 40, 5, 10, 1)])
    with pytest.raises(duckdb.OutOfMemoryException):
        swept(monkeypatch, REPLAY, statement, compiled=True)


def test_no_edge_gives_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    for compiled in (True, False):
        statement = values([(0, 0, 1, 5, 10, 1)]) + " WHERE FALSE"
        assert swept(monkeypatch, REPLAY, statement, compiled=compiled) == []
