"""Loads host events of a CUDA graph capture, for a trace that contains replays of the graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.errors import TraceError
from tracekit.ingest.load import forget_trace, load_events
from tracekit.ingest.reading import Reading

if TYPE_CHECKING:
    import duckdb

    from tracekit.storage import Place

_APART = 1 << 40
"""Offset that separates process ids of the capture from those of the trace."""


def load_capture(
    connection: duckdb.DuckDBPyConnection, path: Place, number: int, spare_id: int
) -> None:
    """Add the ops, ranges, Python calls, and launches of a file to the first trace.

    No view contains these rows. Device events of the file are not added, but each launch gets the
    name of its kernel.
    """
    forget_trace(connection, spare_id)
    with Reading(path) as reading:
        load_events(connection, reading, spare_id)
    if not connection.execute(
        f"SELECT 1 FROM event WHERE trace_id = {spare_id} AND is_launch_call(category) "
        "AND contains(name, 'StreamBeginCapture') LIMIT 1"
    ).fetchall():
        raise TraceError(
            f"{path}: no captured graph",
            hint="a capture starts with cudaStreamBeginCapture or hipStreamBeginCapture: "
            "profile the start of the engine with CPU and device activities",
        )
    connection.execute(
        f"""
        INSERT INTO record BY NAME
        WITH worked AS (
            SELECT correlation, any_value(name) AS kernel
            FROM event
            WHERE trace_id = {spare_id} AND is_device_work(category) AND correlation > 0
            GROUP BY correlation
            HAVING count(*) = 1
        )
        SELECT e.* REPLACE (
            0 AS trace_id,
            e.event_id + 1 + (SELECT max(event_id) FROM record WHERE trace_id = 0) AS event_id,
            e.pid - {(number + 1) * _APART} AS pid,
            NULL AS correlation,
            if(
                w.kernel IS NOT NULL AND is_launch_call(e.category),
                json_merge_patch(e.args, json_object('kernel', w.kernel)),
                e.args
            ) AS args
        )
        FROM event AS e
        LEFT JOIN worked AS w USING (correlation)
        WHERE
            e.trace_id = {spare_id}
            AND (
                is_op(e.category) OR is_annotation(e.category) OR is_python_call(e.category)
                OR is_launch_call(e.category)
            )
        """
    )
    forget_trace(connection, spare_id)
