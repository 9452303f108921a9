"""Loads one trace file into the tables of a store.

Events are read block by block (:mod:`tracekit.ingest.reading`) and concurrently inserted into table
record (:mod:`tracekit.ingest.event_loader`). At most two dozen blocks are in memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from tracekit.event_description import KINDS
from tracekit.ingest.event_loader import EventLoader
from tracekit.ingest.faults import Faults
from tracekit.ingest.formats.chrome_trace import OPEN_ARRAY
from tracekit.ingest.formats.span_pairs import pair_spans
from tracekit.ingest.reading import Reading
from tracekit.ingest.sources import resolved
from tracekit.ingest.trace_metadata import as_int, find_rank
from tracekit.redaction import mask_members
from tracekit.sql_text import literal, rows

if TYPE_CHECKING:
    import duckdb


THREAD = "thread"

_OF_TRACES = (
    "record",
    "trace",
    "device",
    "process_group",
    "thread",
    "rejected",
    "repaired",
    "unpaired",
)


def forget_trace(connection: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Remove all rows of a trace from the ingested tables."""
    for table in _OF_TRACES:
        connection.execute(f"DELETE FROM {table} WHERE trace_id = {trace_id}")


def load_trace(
    connection: duckdb.DuckDBPyConnection, reading: Reading, trace_id: int
) -> int | None:
    """Load one trace file into the ingested tables, except table thread; return its rank."""
    unpaired_count, counts, window = load_events(connection, reading, trace_id)
    reader = reading.reader
    metadata = reader.metadata()
    # Services write environment variables into the metadata, and stores are shared more often than
    # traces.
    mask_members(metadata)
    _insert_faults(connection, trace_id, reader.faults)
    rank = _insert_trace(connection, trace_id, reading, metadata, counts, window, unpaired_count)
    _insert_devices_and_groups(connection, trace_id, metadata)
    return rank


def _counted(
    connection: duckdb.DuckDBPyConnection, trace_id: int
) -> tuple[dict[str, int], bool, tuple[int | None, int | None]]:
    """Return the row count of each kind, whether all spans have an end, and the time window."""
    counts = {kind.name: 0 for kind in KINDS}
    is_paired, window = True, (None, None)
    for name, count, timed, begin_ns, end_ns in connection.execute(
        "SELECT view_name, count(*), count(dur_ns), min(ts_ns), max(ts_ns + dur_ns) FROM record "
        f"WHERE trace_id = {trace_id} GROUP BY view_name"
    ).fetchall():
        counts[name] = count
        if name == "event":
            is_paired, window = count == timed, (begin_ns, end_ns)
    return counts, is_paired and not counts["span_end"], window


def load_events(
    connection: duckdb.DuckDBPyConnection, reading: Reading, trace_id: int
) -> tuple[int, dict[str, int], tuple[int | None, int | None]]:
    """Load events; return the number of unpaired events, counts by kind, and the window."""
    loader = EventLoader(connection, trace_id)
    try:
        for rows in reading.blocks():
            loader.add(rows)
        loader.wait()
    finally:
        loader.close()
    counts, is_paired, window = _counted(connection, trace_id)
    unpaired_count = 0
    if not is_paired:
        unpaired_count = pair_spans(connection, trace_id)
        _, _, window = _counted(connection, trace_id)
    if not any(counts.values()):
        raise reading.reader.unreadable()
    return unpaired_count, counts, window


def _insert_faults(connection: duckdb.DuckDBPyConnection, trace_id: int, faults: Faults) -> None:
    rejected = sorted(faults.rejected, key=lambda row: row.byte_offset)
    repaired = sorted(faults.repaired, key=lambda row: row.byte_offset)
    _insert(
        connection,
        "rejected",
        [(trace_id, r.byte_offset, r.event_id, r.reason, r.text, None) for r in rejected],
    )
    _insert(
        connection,
        "repaired",
        [(trace_id, r.event_id, r.byte_offset, r.reason) for r in repaired],
    )


def _insert(
    connection: duckdb.DuckDBPyConnection, table: str, values: list[tuple[object, ...]]
) -> None:
    for start in range(0, len(values), 1000):
        connection.execute(f"INSERT INTO {table} VALUES {rows(values[start : start + 1000])}")


def _insert_trace(
    connection: duckdb.DuckDBPyConnection,
    trace_id: int,
    reading: Reading,
    metadata: Mapping[str, object],
    counts: Mapping[str, int],
    window: tuple[int | None, int | None],
    unpaired_count: int,
) -> int | None:
    path, stream, reader = reading.path, reading.stream, reading.reader
    info = metadata.get("distributedInfo")
    info = info if isinstance(info, Mapping) else {}
    rank, rank_source = find_rank(metadata, path.name)
    rank = rank if rank is not None and rank < 2**31 else None
    readable = sum(counts.values())
    truncation = reader.truncation
    if truncation == OPEN_ARRAY and _is_of_nccl(connection, trace_id):
        truncation = None
    world_size = as_int(info.get("world_size", metadata.get("tracekit_world_size")), bits=32)
    row: dict[str, object] = {
        "trace_id": trace_id,
        "path": str(resolved(path)),
        "file_name": path.name,
        "rank": rank,
        "rank_source": rank_source,
        "world_size": None if world_size is None or world_size < 1 else world_size,
        "backend": _text(info.get("backend")),
        "base_time_ns": as_int(metadata.get("baseTimeNanoseconds")) or 0,
        "display_time_unit": _text(metadata.get("displayTimeUnit")),
        "trace_uuid": _text(metadata.get("trace_id")),
        "host_name": _text(metadata.get("host_name")),
        "record_shapes": _flag(metadata, "record_shapes"),
        "with_stack": _flag(metadata, "with_stack"),
        "with_modules": _flag(metadata, "with_modules"),
        "with_flops": _flag(metadata, "with_flops"),
        "profile_memory": _flag(metadata, "profile_memory"),
        # A pipe has no size.
        "file_bytes": stream.file_bytes or stream.file_bytes_read,
        "text_bytes": stream.text_bytes,
        "event_count": readable,
        "complete_count": counts["event"],
        "span_end_count": counts["span_end"],
        "flow_count": counts["flow"],
        "instant_count": counts["instant"],
        "counter_count": counts["counter"],
        "memory_count": counts["memory"],
        "metadata_count": counts["metadata"],
        "left_out_count": counts["left_out"],
        "rejected_count": reader.faults.rejected_count,
        "repaired_count": reader.faults.repaired_count,
        "unpaired_count": unpaired_count,
        "is_truncated": truncation is not None,
        "truncation_reason": truncation,
        "first_ts_ns": window[0],
        "last_end_ns": window[1],
        "metadata": _json(metadata),
    }
    connection.execute(
        f"INSERT INTO trace ({', '.join(row)}) VALUES ({', '.join(map(literal, row.values()))})"
    )
    return rank


def _is_of_nccl(connection: duckdb.DuckDBPyConnection, trace_id: int) -> bool:
    """Return whether a trace is from NCCL's profiler plugin, which never closes the event array.

    The categories are from plugins/profiler/example/print_event.cc of NCCL.
    """
    return not connection.execute(
        f"FROM record WHERE trace_id = {trace_id} AND NOT coalesce(category IN ('GROUP_API', "
        "'GROUP', 'COLL_API', 'P2P_API', 'COLL', 'P2P', 'KERNEL_LAUNCH', 'PROXY', 'NET', 'GPU'), "
        "FALSE) LIMIT 1"
    ).fetchall()


def _insert_devices_and_groups(
    connection: duckdb.DuckDBPyConnection, trace_id: int, metadata: Mapping[str, object]
) -> None:
    devices: list[tuple[object, ...]] = []
    for device in _objects(metadata.get("deviceProperties")):
        major, minor = as_int(device.get("computeMajor")), as_int(device.get("computeMinor"))
        devices.append(
            (
                trace_id,
                as_int(device.get("id")),
                _text(device.get("name")),
                as_int(device.get("totalGlobalMem")),
                None if major is None else f"{major}.{minor or 0}",
                as_int(device.get("numSms"), bits=32),
                _json(device),
            )
        )
    _insert(connection, "device", devices)
    info = metadata.get("distributedInfo")
    _insert(
        connection,
        "process_group",
        [
            (
                trace_id,
                _text(group.get("pg_name")),
                _text(group.get("pg_desc")),
                _text(group.get("backend_config")),
                as_int(group.get("pg_size"), bits=32),
                _json(group.get("ranks")),
            )
            for group in _objects(info.get("pg_config") if isinstance(info, Mapping) else None)
        ],
    )


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


def _objects(value: object) -> list[Mapping[str, object]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else _json(value)


def _flag(metadata: Mapping[str, object], key: str) -> bool:
    return bool(as_int(metadata.get(key)))


def _json(value: object) -> str | None:
    """Return ``value`` as JSON that DuckDB accepts: NaN and Infinity become null."""
    if value is None:
        return None
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, ArithmeticError, msgspec.MsgspecError):
        # The text has lone surrogates or numbers beyond 64 bits.
        return json.dumps(value, default=str, ensure_ascii=False)
