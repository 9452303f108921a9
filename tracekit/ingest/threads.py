"""Fills table thread after the events of all traces have been loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

THREAD = "thread"
"""Name of the table."""


def fill_threads(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill table thread with all threads that have an event or a name."""
    connection.execute(
        f"""
        INSERT INTO {THREAD}
        WITH owner AS (
            SELECT DISTINCT trace_id, pid, tid
            FROM record
            WHERE view_name IN ('event', 'metadata') AND pid IS NOT NULL
        ),
        -- Only where one is a text are they among the members without a column.
        in_file AS (
            SELECT trace_id, pid, tid, any_value(extra ->> '$.pid') AS pid_text,
                any_value(extra ->> '$.tid') AS tid_text
            FROM record
            WHERE view_name IN ('event', 'metadata') AND extra IS NOT NULL
            GROUP BY trace_id, pid, tid
        ),
        named AS (
            SELECT trace_id, pid, tid, name, args ->> '$.name' AS value,
                args ->> '$.labels' AS labels
            FROM metadata
        ),
        process AS (
            SELECT trace_id, pid,
                any_value(value) FILTER (name = 'process_name') AS process_name,
                any_value(labels) FILTER (name = 'process_labels') AS process_labels
            FROM named GROUP BY trace_id, pid
        ),
        thread_name AS (
            SELECT trace_id, pid, tid, any_value(value) AS thread_name
            FROM named WHERE name = 'thread_name' GROUP BY trace_id, pid, tid
        )
        SELECT owner.trace_id, owner.pid, owner.tid, coalesce(pid_text, owner.pid::VARCHAR),
            coalesce(tid_text, owner.tid::VARCHAR), process_name, process_labels, thread_name
        FROM owner
        LEFT JOIN in_file
            ON owner.trace_id = in_file.trace_id AND owner.pid = in_file.pid
            AND owner.tid IS NOT DISTINCT FROM in_file.tid
        LEFT JOIN process ON owner.trace_id = process.trace_id AND owner.pid = process.pid
        LEFT JOIN thread_name
            ON owner.trace_id = thread_name.trace_id AND owner.pid = thread_name.pid
            AND owner.tid = thread_name.tid
        ORDER BY ALL
        """,
    )
