"""Sweeps over the dependency graph in C (native/passes/replay.c): replay, gains, and critical path.

A replay computes two times of each node: the earliest that its incoming edges allow, and the latest
that delays no trace end. The gain of a group of edges is the time that removing the group saves. A
path follows the binding edges back from the end of each trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import duckdb

from tracekit.analysis.passes.sweeps import SWEPT, swept
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
"""Sweep that fills each table, from the rows that the table's SQL file returns."""

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
    """Replay the graph once per edge weight, and return the times of groups of nodes.

    Args:
        connection: a connection that can run the statement; it may be in a transaction.
        statement: returns rows of (source_node, target_node, target_ns, group of the target or
            NULL, the weights).

    Returns:
        For each group, from 0: its number, and the time of its last node per weight, ns. For group
        0, the time of its first node.
    """
    # The result of a previous statement may be unread.
    connection.complete()
    with (
        closing(cursor_of(connection)) as reader,
        swept(reader, MOMENTS, statement, source=connection),
    ):
        return reader.execute(f"FROM {SWEPT}").fetchall()
