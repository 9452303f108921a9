"""Adds the ops of replays of graphs to a store: those that were around the calls of the capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.database.connections import session_of

if TYPE_CHECKING:
    import duckdb

REPLAYED_OPS = "replayed_ops"
"""Name of the step."""

REQUIRES = ("replayed_event",)


def add_replayed_ops(connection: duckdb.DuckDBPyConnection) -> None:
    """Add a row to table record for each op of a replay, which took no time of the host.

    An op that was captured once is called once by every replay: what is said of calls, as how many
    operations they are, is said of each. No view of events has these rows.
    """
    if session_of(connection).row_counts["replayed_event"]:
        connection.execute(
            """
            INSERT INTO record BY NAME
            SELECT r.trace_id, r.op_id AS event_id, o.ph, l.pid, l.tid, o.category, o.name,
                l.ts_ns, 0 AS dur_ns, o.args
            FROM (SELECT DISTINCT trace_id, op_id, captured_op_id, replay_id FROM replayed_event)
                AS r
            INNER JOIN record AS o ON r.trace_id = o.trace_id AND r.captured_op_id = o.event_id
            INNER JOIN launch AS l ON r.trace_id = l.trace_id AND r.replay_id = l.launch_id
            ORDER BY r.trace_id, r.op_id
            """
        )
