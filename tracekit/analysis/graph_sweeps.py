"""Sweeps over the dependency graph in C (native/replay.c): replay, gains, and critical path.

A replay computes the earliest time of each node that its incoming edges allow, and the latest time
that delays no trace end. The gain of a group of edges is the time by which the end moves earlier
without them. A path follows the binding edges back from the end of each trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import duckdb

from tracekit.analysis.sweeps import SWEPT, swept
from tracekit.database.connections import cursor_of

REPLAY, GAINS, MOMENTS, RUN_STEPS, PATH = "replay", "gains", "moments", "run_steps", "path"

VARIANTS = 5
"""Number of weights per edge that :data:`MOMENTS` replays in one pass."""

TABLES = {
    "graph_path": PATH,
    "graph_timing": REPLAY,
    "graph_replay": REPLAY,
    "graph_gain": GAINS,
    "replayed_step": RUN_STEPS,
    "run_replay": REPLAY,
}
"""Tables that a sweep creates from the rows that their SQL file returns."""

_Row = Sequence[Any]
"""A row of integers and NULLs."""


def create_swept(
    connection: duckdb.DuckDBPyConnection, place: str, sweep: str, statement: str
) -> None:
    """Create a table from the result of a sweep over the rows of a statement.

    Args:
        connection: a connection that can run the statement.
        place: name of the table.
        sweep: name of the sweep, which determines the rows:
            :data:`REPLAY`: (edge_id, source_node, target_node, weight_ns, target_ns, 1 if the
            target is an end).
            :data:`GAINS`: the same columns and a NULL, followed by rows of groups in order:
            (edge_id, NULL, …, number of the group). Edges are numbered from 0 in row order.
            :data:`MOMENTS`: the rows of :func:`read_group_times`.
            :data:`RUN_STEPS`: the rows of table replayed_step.
            :data:`PATH`: (edge_id, source_node, target_node, trace to whose end the edge leads).
        statement: returns the edges; for a path, only the binding edge of each node.
    """
    # The statement runs on its own connection, which cannot see temporary views.
    input_table = f"{place}_taken"
    connection.execute(f"CREATE OR REPLACE TABLE {input_table} AS {statement}")
    try:
        with swept(connection, sweep, f"FROM {input_table}"):
            connection.execute(f"CREATE OR REPLACE TABLE {place} AS FROM {SWEPT}")
    finally:
        connection.execute(f"DROP TABLE IF EXISTS {input_table}")


def read_group_times(connection: duckdb.DuckDBPyConnection, statement: str) -> Sequence[_Row]:
    """Replay edges with several weights each, and return the times of groups of nodes.

    Args:
        connection: a connection that can run the statement; it may be in a transaction.
        statement: returns rows of (source_node, target_node, target_ns, group of the target or
            NULL, the weights).

    Returns:
        For each group, from 0: its number, and for each weight the time of its last node, ns (for
        group 0, of its first node).
    """
    # The result of a previous statement may be unread.
    connection.complete()
    with (
        closing(cursor_of(connection)) as reader,
        swept(reader, MOMENTS, statement, source=connection),
    ):
        return reader.execute(f"FROM {SWEPT}").fetchall()
