"""The sweeps over a dependency graph that are no SQL: replay, gains, and the way back from an end.

A replay gives each node the earliest moment that the edges into it allow, and the latest at which
nothing ends later. Gains are how much earlier the last end comes without some edges. A path
follows, from the end of each trace, the edges that bind. native/replay.c does all of them.
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
"""So many weights of each edge are replayed at once for :data:`MOMENTS`."""

TABLES = {
    "graph_path": PATH,
    "graph_timing": REPLAY,
    "graph_replay": REPLAY,
    "graph_gain": GAINS,
    "replayed_step": RUN_STEPS,
    "run_replay": REPLAY,
}
"""The tables that a sweep makes of the rows of their file's statement."""

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
            them; :data:`RUN_STEPS`, of those of table replayed_step; or :data:`PATH`, of rows of
            (edge_id, source_node, target_node, the trace to whose end the edge leads).
        statement: gives the edges; for a path those that bind, one for each node.
    """
    # What makes the rows runs on a connection of its own, which sees none of the temporary views.
    taken = f"{place}_taken"
    connection.execute(f"CREATE OR REPLACE TABLE {taken} AS {statement}")
    try:
        with swept(connection, sweep, f"FROM {taken}"):
            connection.execute(f"CREATE OR REPLACE TABLE {place} AS FROM {SWEPT}")
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
    # A change before may have left its count unread.
    connection.complete()
    with (
        closing(cursor_of(connection)) as reader,
        swept(reader, MOMENTS, statement, source=connection),
    ):
        return reader.execute(f"FROM {SWEPT}").fetchall()
