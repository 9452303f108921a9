"""Loads one trace file into the tables of a store.

Two things run at a time: this thread inflates and splits the text, DuckDB reads the previous block.
At most two blocks are in memory, whatever the size of the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.chrome_json import (
    REJECTED_TEXT_BYTES,
    Block,
    Rejected,
    Repaired,
    TraceText,
    unreadable,
)
from tracekit.ingest.normalize import (
    CENSUS_SQL,
    EXACT_SQL,
    FAULT_SQL,
    TARGETS,
    block_sql,
    exact_times,
    insert_sql,
)
from tracekit.ingest.rank import as_int, find_rank
from tracekit.sql_text import literal, quote, rows

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the reading of a file is.

    Attributes:
        path: the file.
        bytes_read: bytes of the file as it lies on disk that have been read.
        bytes_total: size of the file on disk, bytes.
        event_count: events read so far.
    """

    path: str
    bytes_read: int
    bytes_total: int
    event_count: int


class _BlockLoader:
    """Puts blocks into the tables, one after the other, on a thread of its own."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, trace_id: int, work_folder: Path
    ) -> None:
        self._connection = connection
        self._trace_id = trace_id
        self._work_folder = work_folder
        self._turn = 0
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tracekit-load")
        self._running: Future[None] | None = None
        self.counts = dict.fromkeys(TARGETS, 0)
        self.rejected: list[Rejected] = []

    def add(self, block: Block) -> None:
        """Load a block once the one before it is loaded; returns while it is being read."""
        self._turn ^= 1
        path = self._work_folder / f"block{self._turn}.json"
        path.write_bytes(block.text)
        self.wait()
        self._running = self._pool.submit(self._load, path, block)

    def wait(self) -> None:
        """Wait for the block under way, and raise what it raised."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _load(self, path: Path, block: Block) -> None:
        import duckdb

        try:
            self._connection.execute(block_sql(str(path), block))
        except (duckdb.InvalidInputException, duckdb.ConversionException) as error:
            self._isolate(path, block, str(error).splitlines()[0])
            return
        census = self._connection.execute(CENSUS_SQL).fetchall()
        if any(inexact for _, _, inexact in census):
            times = self._work_folder / "times.json"
            times.write_bytes(exact_times(block))
            self._connection.execute(EXACT_SQL.format(path=quote(str(times))))
        for table, count, _ in census:
            if table is None:
                self._reject(block)
            else:
                self._connection.execute(insert_sql(table, self._trace_id))
                self.counts[table] += count

    def _reject(self, block: Block) -> None:
        events = block.events()
        for event_id, reason in self._connection.execute(FAULT_SQL).fetchall():
            text, offset = events[event_id - block.first_event_id]
            shown = text[:REJECTED_TEXT_BYTES].decode("utf-8", "replace")
            self.rejected.append(Rejected(offset, reason, shown, event_id))

    def _isolate(self, path: Path, block: Block, message: str) -> None:
        """Halve a block that DuckDB does not read until the event that it stumbles over is found."""
        events = block.events()
        if len(events) == 1:
            text, offset = events[0]
            shown = text[:REJECTED_TEXT_BYTES].decode("utf-8", "replace")
            self.rejected.append(Rejected(offset, message, shown, block.first_event_id))
            return
        middle = len(events) // 2
        for first, part in ((0, events[:middle]), (middle, events[middle:])):
            half = Block(
                b"[" + b",\n".join(text for text, _ in part) + b"]",
                block.first_event_id + first,
                len(part),
                block.byte_offset,
                tuple(offset for _, offset in part),
            )
            path.write_bytes(half.text)
            self._load(path, half)


def load_trace(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    trace_id: int,
    work_folder: Path,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Read one trace file into the ingested tables.

    Args:
        connection: of the store that is being built; its tables exist.
        path: the trace file.
        trace_id: id of the new row of table ``trace``.
        work_folder: where the text of a block may lie while it is read.
        progress: called now and then with how far the reading is.

    Raises:
        TraceError: the file cannot be read, or holds no readable event.
    """
    text: TraceText

    def on_read(stream: ByteStream) -> None:
        if progress is not None:
            progress(
                Progress(
                    str(path), stream.file_bytes_read, stream.file_bytes, text.event_count
                )
            )

    stream = ByteStream(path, on_read)
    text = TraceText(stream)
    loader = _BlockLoader(connection, trace_id, work_folder)
    try:
        for block in text.blocks():
            loader.add(block)
        loader.wait()
    finally:
        loader.close()
    metadata = text.metadata()
    if sum(loader.counts.values()) == 0:
        text.rejected.extend(loader.rejected)
        text.rejected.sort(key=lambda rejected: rejected.byte_offset)
        raise unreadable(path, stream, text)
    rejected = sorted(text.rejected + loader.rejected, key=lambda row: row.byte_offset)
    _insert_faults(connection, trace_id, rejected, text.repaired)
    _insert_trace(connection, trace_id, path, stream, text, metadata, loader.counts, len(rejected))
    _insert_described(connection, trace_id, metadata)
    _insert_threads(connection, trace_id)


def _insert_faults(
    connection: duckdb.DuckDBPyConnection,
    trace_id: int,
    rejected: list[Rejected],
    repaired: list[Repaired],
) -> None:
    _insert(
        connection,
        "rejected",
        [(trace_id, r.byte_offset, r.event_id, r.reason, r.text) for r in rejected],
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
    path: Path,
    stream: ByteStream,
    text: TraceText,
    metadata: Mapping[str, object],
    counts: Mapping[str, int],
    rejected_count: int,
) -> None:
    info = metadata.get("distributedInfo")
    info = info if isinstance(info, Mapping) else {}
    rank, rank_source = find_rank(metadata, path.name)
    readable = sum(counts.values())
    span = connection.execute(
        f"SELECT min(ts_ns), max(ts_ns + dur_ns) FROM event WHERE trace_id = {trace_id}"
    ).fetchone() or (None, None)
    row: dict[str, object] = {
        "trace_id": trace_id,
        "path": str(path.resolve()),
        "file_name": path.name,
        "rank": rank if rank is not None and rank < 2**31 else None,
        "rank_source": rank_source,
        "world_size": as_int(info.get("world_size")),
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
        "file_bytes": stream.file_bytes,
        "text_bytes": stream.text_bytes,
        "event_count": readable,
        "complete_count": counts["event"],
        "flow_count": counts["flow"],
        "instant_count": counts["instant"],
        "counter_count": counts["counter"],
        "memory_count": counts["memory"],
        "metadata_count": counts["metadata"],
        "rejected_count": rejected_count,
        "repaired_count": len(text.repaired),
        "is_truncated": text.truncation is not None,
        "truncation_reason": text.truncation,
        "first_ts_ns": span[0],
        "last_end_ns": span[1],
        "metadata": _json(metadata),
    }
    connection.execute(
        f"INSERT INTO trace ({', '.join(row)}) VALUES ({', '.join(map(literal, row.values()))})"
    )


def _insert_described(
    connection: duckdb.DuckDBPyConnection, trace_id: int, metadata: Mapping[str, object]
) -> None:
    """Fill the tables device and process_group from the file's own description."""
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
                as_int(device.get("numSms")),
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
                as_int(group.get("pg_size")),
                _json(group.get("ranks")),
            )
            for group in _objects(info.get("pg_config") if isinstance(info, Mapping) else None)
        ],
    )


def _insert_threads(connection: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Fill table thread: every thread that has an event or a name."""
    connection.execute(
        f"""
        INSERT INTO thread
        WITH seen AS (
            SELECT pid, tid, any_value(extra ->> '$.pid') AS pid_text,
                any_value(extra ->> '$.tid') AS tid_text
            FROM (
                SELECT pid, tid, extra FROM event WHERE trace_id = {trace_id}
                UNION ALL SELECT pid, tid, extra FROM metadata WHERE trace_id = {trace_id}
            )
            WHERE pid IS NOT NULL
            GROUP BY pid, tid
        ),
        named AS (
            SELECT pid, tid, name, args ->> '$.name' AS value, args ->> '$.labels' AS labels
            FROM metadata WHERE trace_id = {trace_id}
        ),
        process AS (
            SELECT pid,
                any_value(value) FILTER (name = 'process_name') AS process_name,
                any_value(labels) FILTER (name = 'process_labels') AS process_labels
            FROM named GROUP BY pid
        ),
        thread_name AS (
            SELECT pid, tid, any_value(value) AS thread_name
            FROM named WHERE name = 'thread_name' GROUP BY pid, tid
        )
        SELECT {trace_id}, seen.pid, seen.tid, coalesce(pid_text, seen.pid::VARCHAR),
            coalesce(tid_text, seen.tid::VARCHAR), process_name, process_labels, thread_name
        FROM seen
        LEFT JOIN process USING (pid)
        LEFT JOIN thread_name USING (pid, tid)
        ORDER BY ALL
        """
    )


def _objects(value: object) -> list[Mapping[str, object]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return None if value is None else value if isinstance(value, str) else _json(value)


def _flag(metadata: Mapping[str, object], key: str) -> bool:
    return bool(as_int(metadata.get(key)))


def _json(value: object) -> str | None:
    """Return ``value`` as JSON that DuckDB reads: NaN and Infinity become null."""
    if value is None:
        return None
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, msgspec.MsgspecError):
        return json.dumps(value, default=str)
