"""Loads one trace file into the tables of a store.

Three things run at a time: this thread inflates the text and splits it into blocks, a second one
has DuckDB read the block before, a third one moves the rows of the one before that to their tables.
At most three blocks are in memory, whatever the size of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tracekit.database import cursor_of
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.chrome_json import (
    BLOCK_BYTES,
    MAX_BLOCK_BYTES,
    REJECTED_TEXT_BYTES,
    Block,
    Rejected,
    Repaired,
    TraceText,
    unreadable,
)
from tracekit.ingest.normalize import (
    TARGETS,
    block_sql,
    census_sql,
    exact_sql,
    exact_times,
    fault_sql,
    insert_sql,
)
from tracekit.ingest.progress import Progress
from tracekit.ingest.rank import as_int, find_rank
from tracekit.ingest.repair import has_duplicate_keys
from tracekit.sql_text import literal, rows

if TYPE_CHECKING:
    import duckdb


USUAL_GZIP_RATIO = 15
"""What a trace shrinks by in gzip, roughly; only sizes of blocks and buffers hang on it."""

_SURROGATE = re.compile("[\ud800-\udfff]")

BLOCKS_PER_GROUP = 2
"""How many blocks DuckDB reads at once: planning a statement costs it as much as 1 MB of text."""

SCRATCH = "scratch"
"""The database in memory that holds the blocks under way."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A block in a file."""

    path: Path
    text_bytes: int
    block: Block

    def with_text(self) -> Block:
        """Return the block with its text, from the file where it was left there."""
        return self.block if self.block.text else replace(self.block, text=self.path.read_bytes())


class _BlockLoader:
    """Puts blocks into the tables, in order, on two threads of its own."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        trace_id: int,
        work_folder: Path,
        group_bytes: int,
    ) -> None:
        self._reader = cursor_of(connection)
        self._writer = cursor_of(connection)
        self._trace_id = trace_id
        self._work_folder = work_folder
        self._group_bytes = group_bytes
        self._group: list[_Part] = []
        self._read_pool = ThreadPoolExecutor(1, thread_name_prefix="tracekit-read")
        self._write_pool = ThreadPoolExecutor(1, thread_name_prefix="tracekit-write")
        self._slots: list[Future[None] | None] = [None, None]
        self._turn = 0
        self.counts = dict.fromkeys(TARGETS, 0)
        self.rejected: list[Rejected] = []
        self.repaired: list[Repaired] = []

    def add(self, block: Block) -> None:
        """Have a block loaded, with others in one go; waits while two groups are under way."""
        if not self._group:
            self._turn ^= 1
            busy = self._slots[self._turn]
            if busy is not None:
                busy.result()
        path = self._work_folder / f"block{self._turn}_{len(self._group)}.json"
        text_bytes = path.write_bytes(block.text)
        # The text is in the file; it is read again in the rare case that it is looked at.
        self._group.append(_Part(path, text_bytes, replace(block, text=b"")))
        if sum(part.text_bytes for part in self._group) >= self._group_bytes:
            self._submit()

    def _submit(self) -> None:
        group, self._group = self._group, []
        table = f"{SCRATCH}.block{self._turn}"
        read = self._read_pool.submit(self._read, self._reader, table, group)
        self._slots[self._turn] = self._write_pool.submit(self._write, read, table, group)

    def wait(self) -> None:
        """Load what was added and wait for it; raise what the loading raised."""
        if self._group:
            self._submit()
        for slot in self._slots:
            if slot is not None:
                slot.result()

    def close(self) -> None:
        self._read_pool.shutdown(wait=True, cancel_futures=True)
        self._write_pool.shutdown(wait=True, cancel_futures=True)
        for turn in (0, 1):
            self._writer.execute(f"DROP TABLE IF EXISTS {SCRATCH}.block{turn}")
        self._reader.close()
        self._writer.close()

    @staticmethod
    def _read(cursor: duckdb.DuckDBPyConnection, table: str, group: Sequence[_Part]) -> str | None:
        """Have DuckDB read a group of blocks; return what it says if it cannot."""
        import duckdb

        statement = block_sql(
            table,
            [str(part.path) for part in group],
            group[0].block.first_event_id,
            max(part.text_bytes for part in group),
        )
        try:
            cursor.execute(statement)
        except (duckdb.InvalidInputException, duckdb.ConversionException) as error:
            return str(error).splitlines()[0]
        return None

    def _write(self, read: Future[str | None], table: str, group: Sequence[_Part]) -> None:
        message = read.result()
        census: list[tuple[str | None, int, int]] = []
        if message is None:
            census = self._writer.execute(census_sql(table)).fetchall()
        is_good = message is None and not any(
            target is None or inexact for target, _, inexact in census
        )
        if not is_good and len(group) > 1:
            # Block by block: what is wrong is then known to be in this one.
            for part in group:
                self._write_now(table, part)
            return
        if message is not None:
            self._isolate(table, group[0], message)
            return
        if any(inexact for _, _, inexact in census):
            times = group[0].path.with_suffix(".times.json")
            times.write_bytes(exact_times(group[0].with_text()))
            self._writer.execute(exact_sql(table, str(times)))
        for target, count, _ in census:
            if target is None:
                self._reject(table, group[0].with_text())
            else:
                self._writer.execute(insert_sql(target, self._trace_id, table))
                self.counts[target] += count

    def _write_now(self, table: str, part: _Part) -> None:
        """Read and write one block on the writer's connection."""
        done: Future[str | None] = Future()
        done.set_result(self._read(self._writer, table, [part]))
        self._write(done, table, [part])

    def _reject(self, table: str, block: Block) -> None:
        events = block.events()
        for event_id, reason in self._writer.execute(fault_sql(table)).fetchall():
            text, offset = events[event_id - block.first_event_id]
            shown = text[:REJECTED_TEXT_BYTES].decode("utf-8", "replace")
            self.rejected.append(Rejected(offset, reason, shown, event_id))

    def _isolate(self, table: str, whole: _Part, message: str) -> None:
        """Mend the events that DuckDB does not read; find by halving what it still refuses."""
        block = whole.with_text()
        events, repaired = _without_duplicate_keys(block)
        if repaired:
            self.repaired.extend(repaired)
            self._reload(table, whole, 0, events)
            return
        if len(events) == 1:
            text, offset = events[0]
            shown = text[:REJECTED_TEXT_BYTES].decode("utf-8", "replace")
            reason = message.replace(str(whole.path), "the block")
            self.rejected.append(Rejected(offset, reason, shown, block.first_event_id))
            return
        middle = len(events) // 2
        self._reload(table, whole, 0, events[:middle])
        self._reload(table, whole, middle, events[middle:])

    def _reload(
        self, table: str, whole: _Part, first: int, events: list[tuple[bytes, int]]
    ) -> None:
        """Load a part of a block, from its event number ``first`` on."""
        part = Block(
            b"[" + b",\n".join(text for text, _ in events) + b"]",
            whole.block.first_event_id + first,
            len(events),
            whole.block.byte_offset,
            tuple(offset for _, offset in events),
        )
        path = whole.path.with_name(whole.path.name.split(".")[0] + ".part.json")
        text_bytes = path.write_bytes(part.text)
        # Kept with its text: the file is written over by the next part.
        self._write_now(table, _Part(path, text_bytes, part))


def _without_duplicate_keys(block: Block) -> tuple[list[tuple[bytes, int]], list[Repaired]]:
    """Return the events of a block, of equal keys the last one kept, and which had equal keys."""
    events: list[tuple[bytes, int]] = []
    repaired: list[Repaired] = []
    for event_id, (text, offset) in enumerate(block.events(), start=block.first_event_id):
        if has_duplicate_keys(text):
            text = msgspec.json.encode(msgspec.json.decode(text, type=dict[str, msgspec.Raw]))
            repaired.append(Repaired(event_id, offset, "duplicate key"))
        events.append((text, offset))
    return events, repaired


def forget_trace(connection: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Remove what a reading of the trace that did not get to its end left in the tables."""
    for table in (*TARGETS, "trace", "device", "process_group", "thread", "rejected", "repaired"):
        connection.execute(f"DELETE FROM {table} WHERE trace_id = {trace_id}")


def usual_text_bytes(path: Path) -> int:
    """Guess how much JSON text a file holds, from its size; 0 if it cannot be looked at."""
    try:
        packed_bytes = path.stat().st_size
    except OSError:
        return 0
    return packed_bytes * (USUAL_GZIP_RATIO if path.suffix == ".gz" else 1)


def _block_bytes(path: Path) -> int:
    """Choose the size of a block: small where the file is, so that its few blocks overlap too."""
    return min(max(usual_text_bytes(path) // 16, BLOCK_BYTES), MAX_BLOCK_BYTES)


def load_trace(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    trace_id: int,
    work_folder: Path,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Read one trace file into the ingested tables.

    Args:
        connection: of the store that is being built; its tables exist, and a database
            :data:`SCRATCH` is attached.
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
                Progress(str(path), stream.file_bytes_read, stream.file_bytes, text.event_count)
            )

    stream = ByteStream(path, on_read)
    block_bytes = _block_bytes(path)
    text = TraceText(stream, block_bytes)
    loader = _BlockLoader(connection, trace_id, work_folder, BLOCKS_PER_GROUP * block_bytes)
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
    text.repaired.extend(loader.repaired)
    text.repaired.sort(key=lambda row: row.byte_offset)
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
        "path": _unicode(str(path.resolve())),
        "file_name": _unicode(path.name),
        "rank": rank if rank is not None and rank < 2**31 else None,
        "rank_source": rank_source,
        "world_size": as_int(info.get("world_size"), bits=32),
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
    return _unicode(value) if isinstance(value, str) else _json(value)


def _unicode(text: str) -> str:
    """Return ``text`` without lone surrogates: file names and JSON may hold them, SQL may not."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _flag(metadata: Mapping[str, object], key: str) -> bool:
    return bool(as_int(metadata.get(key)))


def _json(value: object) -> str | None:
    """Return ``value`` as JSON that DuckDB reads: NaN and Infinity become null."""
    if value is None:
        return None
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, ArithmeticError, msgspec.MsgspecError):
        # Lone surrogates, or numbers beyond 64 bits.
        return _unicode(json.dumps(value, default=str, ensure_ascii=False))
