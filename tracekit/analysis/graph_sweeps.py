"""The sweeps over a dependency graph that are no SQL: replay, gains, and the way back from an end.

A replay gives each node the earliest moment that the edges into it allow, and the latest at which
nothing ends later. Gains are how much earlier the last end comes without some edges. A path
follows, from the end of each trace, the edges that bind. Where it is compiled, native/replay.c does
all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import duckdb

from tracekit.analysis.sweeps import SWEPT, compiled_sweeps, swept
from tracekit.database import cursor_of

REPLAY, GAINS, MOMENTS, PATH = "replay", "gains", "moments", "path"

VARIANTS = 5
"""So many weights of each edge are replayed at once for :data:`MOMENTS`."""

TABLES = {
    "graph_path": PATH,
    "graph_timing": REPLAY,
    "graph_replay": REPLAY,
    "graph_gain": GAINS,
    "plain_moment": MOMENTS,
    "factor_moment": MOMENTS,
    "near_moment": MOMENTS,
    "run_replay": REPLAY,
}
"""The tables that a sweep makes of the rows of their file's statement."""

_COLUMNS = {
    REPLAY: ("node", "at_ns", "latest_ns", "edge_id"),
    GAINS: ("group_id", "gain_ns"),
    MOMENTS: ("moment", *(f"ns_{number}" for number in range(VARIANTS))),
    PATH: ("trace_id", "place", "edge_id"),
}

_Row = Sequence[Any]
"""Whole numbers and None."""


def create_swept(
    connection: duckdb.DuckDBPyConnection, place: str, sweep: str, statement: str
) -> None:
    """Create a table of what a sweep makes of the rows of a statement.

    Args:
        connection: one that sees what the statement reads.
        place: the name of the table.
        sweep: :data:`REPLAY`, of rows of (edge_id, source_node, target_node, weight_ns, target_ns,
            whether the target is an end: 1); :data:`GAINS`, of the same rows with a NULL, and
            behind them of groups in order: (edge_id, NULL, …, the number of a group), where edges
            are numbered from 0 in the order given; :data:`MOMENTS`, as :func:`read_moments` takes
            them; or :data:`PATH`, of rows of (edge_id,
            source_node, target_node, the trace to whose end the edge leads).
        statement: gives the edges; for a path those that bind, one for each node.
    """
    # What makes the rows runs on a connection of its own, which sees none of the temporary views.
    taken = f"{place}_taken"
    connection.execute(f"CREATE OR REPLACE TABLE {taken} AS {statement}")
    try:
        _create(connection, place, sweep, f"FROM {taken}")
    finally:
        connection.execute(f"DROP TABLE IF EXISTS {taken}")


def read_moments(connection: duckdb.DuckDBPyConnection, statement: str) -> Sequence[_Row]:
    """Replay edges with several weights each; return when groups of nodes come.

    Args:
        connection: one that sees what the statement reads, in a transaction of its own, too.
        statement: gives rows of (source_node, target_node, target_ns, group of the target or NULL,
            the weights).

    Returns:
        For each group from 0 on: its number, and for each weight, ns, when the first node of
        group 0 comes, of others the last.
    """
    if compiled_sweeps() is None:
        return list(_moments(connection.execute(statement).fetchall()))
    # A change before may have left its count unread.
    connection.complete()
    with (
        closing(cursor_of(connection)) as reader,
        swept(reader, MOMENTS, statement, source=connection),
    ):
        return reader.execute(f"FROM {SWEPT}").fetchall()


def _create(connection: duckdb.DuckDBPyConnection, place: str, sweep: str, statement: str) -> None:
    if compiled_sweeps() is not None:
        with swept(connection, sweep, statement):
            connection.execute(f"CREATE OR REPLACE TABLE {place} AS FROM {SWEPT}")
        return
    rows = connection.execute(statement).fetchall()
    names = _COLUMNS[sweep]
    declared = ", ".join(f"{name} BIGINT" for name in names)
    connection.execute(f"CREATE OR REPLACE TABLE {place} ({declared})")
    make = {REPLAY: _replayed, GAINS: _gains, MOMENTS: _moments, PATH: _walked_back}[sweep]
    found = list(make(rows))
    if found:
        columns = [[row[i] for row in found] for i in range(len(names))]
        unnested = ", ".join(f"unnest(?::BIGINT[]) AS {name}" for name in names)
        connection.execute(f"INSERT INTO {place} SELECT {unnested}", columns)


def _replayed(edges: Sequence[_Row]) -> Iterator[_Row]:
    """Yield each node, its earliest and latest moment, and the edge that binds it."""
    outgoing: dict[int, list[_Row]] = defaultdict(list)
    missing: dict[int, int] = defaultdict(int)
    recorded: dict[int, int] = {}
    for edge in edges:
        _, source, target, _, target_ns, _ = edge
        outgoing[source].append(edge)
        missing[target] += 1
        recorded[target] = target_ns
        recorded.setdefault(source, 0)
    at: dict[int, int] = {}
    binding: dict[int, int] = {}
    order: dict[int, int] = {}
    ready = [node for node in recorded if not missing[node]]
    while ready or len(order) < len(recorded):
        # Where edges run in a circle, the node of it that was recorded first comes first.
        left = (node for node in recorded if node not in order)
        node = ready.pop() if ready else min(left, key=lambda one: (recorded[one], one))
        order[node] = len(order)
        at.setdefault(node, 0)
        for number, _, target, weight, *_ in outgoing[node]:
            if target in order:
                continue
            moment = at[node] + weight
            if target not in binding or (moment, -number) > (at[target], -binding[target]):
                at[target], binding[target] = moment, number
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    ends = {edge[2] for edge in edges if edge[5] == 1}
    latest = dict.fromkeys(ends, max((at[node] for node in ends), default=0))
    for node in reversed(order):
        for _, _, target, weight, *_ in outgoing[node]:
            if target in latest and order[target] > order[node]:
                bound = latest[target] - weight
                latest[node] = min(latest.get(node, bound), bound)
    for node in sorted(order):
        yield node, at[node], latest.get(node), binding.get(node)


def _gains(rows: Sequence[_Row]) -> Iterator[_Row]:
    """Yield each group and by how much the last end comes earlier without it."""
    edges = [row[:6] for row in rows if row[6] is None]
    members: dict[int, set[int]] = defaultdict(set)
    for row in rows:
        if row[6] is not None:
            members[row[6]].add(row[0])

    def end_without(gone: set[int]) -> int:
        left = [(*edge[:3], 0 if edge[0] in gone else edge[3], *edge[4:]) for edge in edges]
        at = {node: moment for node, moment, *_ in _replayed(left)}
        return max((at[edge[2]] for edge in edges if edge[5] == 1), default=0)

    end = end_without(set())
    for group, gone in members.items():
        yield group, end - end_without(gone)


def _moments(rows: Sequence[_Row]) -> Iterator[_Row]:
    """Yield each group and when it comes with each of the weights."""
    groups: dict[int, set[int]] = defaultdict(set)
    for row in rows:
        if row[3] is not None:
            groups[row[3]].add(row[1])
    runs = []
    for weight in range(4, 4 + VARIANTS):
        edges = [(number, *row[:2], row[weight], row[2], 0) for number, row in enumerate(rows)]
        runs.append({node: moment for node, moment, *_ in _replayed(edges)})
    for group in range(max(groups, default=-1) + 1):
        choose = max if group else min
        nodes = groups[group]
        yield group, *(choose((at[node] for node in nodes), default=None) for at in runs)


def _walked_back(edges: Sequence[_Row]) -> Iterator[_Row]:
    """Yield the trace, the place from the end, and the edge, of the path to each end."""
    into = {edge[2]: edge for edge in edges}
    for edge in edges:
        step: _Row | None = edge if edge[3] is not None else None
        place = 0
        while step is not None and place < len(edges):
            yield edge[3], place, step[0]
            step = into.get(step[1])
            place += 1
