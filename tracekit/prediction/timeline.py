"""Writes a predicted run as a Chrome trace: the calls of the host, and the work of devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.errors import StoreError
from tracekit.storage.local import LocalLocation

if TYPE_CHECKING:
    import duckdb

_SPANS = """
SELECT
    t.rank, t.trace_id, s.kind, s.name, s.work_kind, s.pid, s.tid, s.device, s.stream,
    coalesce(s.correlation, l.correlation), begun.at_ns, ended.at_ns - begun.at_ns
FROM graph_span AS s
INNER JOIN {at} AS begun ON s.span_id * 2 = begun.node
INNER JOIN {at} AS ended ON s.span_id * 2 + 1 = ended.node
INNER JOIN trace AS t USING (trace_id)
LEFT JOIN launch AS l ON s.trace_id = l.trace_id AND s.launch_id = l.launch_id
WHERE s.kind <> 'mark'
ORDER BY s.trace_id, begun.at_ns, s.span_id
"""


def write_timeline(connection: duckdb.DuckDBPyConnection, at: str, path: Path) -> None:
    """Write what ran, at the times of a replay.

    Args:
        connection: one that has the graph.
        at: the table of the replay.
        path: the file, which is written whole or not at all.

    Raises:
        StoreError: it cannot be written.
    """
    events = []
    for row in connection.execute(_SPANS.format(at=at)).fetchall():
        rank, trace_id, kind, name, work_kind, pid, tid, device, stream, correlation, *times = row
        process = trace_id if rank is None else rank
        start_ns, dur_ns = times
        event: dict[str, object] = {"ph": "X", "name": name, "ts": start_ns / 1e3}
        event["dur"] = dur_ns / 1e3
        if kind == "work" and device != "cpu":
            category = "gpu_memcpy" if work_kind == "memcpy" else "kernel"
            args = {"device": int(device) if device.isdecimal() else device, "stream": stream}
            event |= {"cat": category, "pid": device, "tid": stream}
        else:
            args = {}
            event |= {"cat": "cpu_op" if kind == "work" else "cuda_runtime", "pid": pid, "tid": tid}
        event["args"] = args | {"rank": process}
        if correlation is not None:
            event["args"] = args | {"rank": process, "correlation": correlation}
        events.append(event)
    document = {"traceEvents": events, "displayTimeUnit": "ms", "predicted": True}
    try:
        LocalLocation(path).write_bytes(json.dumps(document, ensure_ascii=True).encode())
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error
