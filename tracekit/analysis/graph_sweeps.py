"""Sweeps over the dependency graph in C (native/replay.c): replay, gains, and critical path.

A replay computes the earliest time of each node that its incoming edges allow, and the latest time
that delays no end. The gain of a group of edges is how much earlier the last end is without them. A
path follows the binding edges back from the end of each trace.
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
"""Number of weights per edge that :data:`MOMENTS` replays at once."""

TABLES = {
    "graph_path": PATH,
    "graph_timing": REPLAY,
    "graph_replay": REPLAY,
    "graph_gain": GAINS,
    "replayed_step": RUN_STEPS,
    "run_replay": REPLAY,
}
"""Tables that a sweep creates from the rows of the statement in their SQL file."""

_Row = Sequence[Any]
"""Integers and None."""


def create_swept(
    connection: duckdb.DuckDBPyConnection, place: str, sweep: str, statement: str
) -> None:
    """Create a table from the result of a sweep over the rows of a statement.

    Args:
        connection: a connection that can run the statement.
        place: name of the table.
        sweep: :data:`REPLAY`, of rows of (edge_id, source_node, target_node, weight_ns, target_ns,
            whether the target is an end: 1); :data:`GAINS`, of the same rows with a NULL, and
            behind them of groups in order: (edge_id, NULL, …, the number of a group), where edges
            are numbered from 0 in the order given; :data:`MOMENTS`, as :func:`read_moments` takes
            them; :data:`RUN_STEPS`, of those of table replayed_step; or :data:`PATH`, of rows of
            (edge_id, source_node, target_node, the trace to whose end the edge leads).
        statement: gives the edges; for a path those that bind, one for each node.
    """
    # The statement runs on its own connection, which cannot see temporary views.
    taken = f"{place}_taken"
    connection.execute(f"CREATE OR REPLACE TABLE {taken} AS {statement}")
    try:
        with swept(connection, sweep, f"FROM {taken}"):
            connection.execute(f"CREATE OR REPLACE TABLE {place} AS FROM {SWEPT}")
    finally:
        connection.execute(f"DROP TABLE IF EXISTS {taken}")


def read_moments(connection: duckdb.DuckDBPyConnection, statement: str) -> Sequence[_Row]:
    """Replay edges with several weights each, and return the times of groups of nodes.

    Args:
        connection: a connection that can run the statement, also inside a transaction.
        statement: returns rows of (source_node, target_node, target_ns, group of the target or
            NULL, the weights).

    Returns:
        Per group, from 0: its number, and for each weight the time of its last node, ns. For group
        0 it is the time of the first node.
    """
    # The result of a previous statement may be unread.
    connection.complete()
    with (
        closing(cursor_of(connection)) as reader,
        swept(reader, MOMENTS, statement, source=connection),
    ):
        return reader.execute(f"FROM {SWEPT}").fetchall()
