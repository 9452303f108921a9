"""Loads blocks of events, and finds in each what cannot be read.

The short way is one statement per group of blocks, from the JSON to table record: what it cannot
read gets no kind, and is for a second look. The long way is through a table in memory, where times
that a double does not hold are read again from their text, and what cannot be read is named.

Three things run at a time: the caller writes the text of blocks to files, a second thread has
DuckDB read those before, a third one, on the long way, moves their rows to table record. At most
three groups of blocks are under way here, besides the blocks that were read ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tracekit.database import cursor_of
from tracekit.ingest.chrome_json import REJECTED_TEXT_BYTES, Block, Rejected, Repaired
from tracekit.ingest.normalize import (
    block_sql,
    census_sql,
    direct_sql,
    exact_sql,
    exact_times,
    fault_sql,
    insert_sql,
)
from tracekit.ingest.repair import has_duplicate_keys

if TYPE_CHECKING:
    import duckdb

BLOCKS_PER_GROUP = 2
"""How many blocks DuckDB reads at once, where their rows are held in memory."""

BLOCKS_PER_STATEMENT = 8
"""And on the short way, at most: a statement costs as much as 3 MB of text."""

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


class BlockLoader:
    """Puts blocks into table record, in order, on two threads of its own.

    Args:
        connection: of the store that is being built, with a database :data:`SCRATCH`.
        trace_id: the trace.
        work_folder: where the text of a block may lie while it is read.
        group_bytes: how much text DuckDB reads at once, bytes.
        is_short_way: whether the short way is tried.

    Attributes:
        rejected: what could not be read, complete after :meth:`wait`.
        repaired: what was read after mending, likewise.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        trace_id: int,
        work_folder: Path,
        group_bytes: int,
        *,
        is_short_way: bool,
    ) -> None:
        self._reader = cursor_of(connection)
        self._writer = cursor_of(connection)
        self._trace_id = trace_id
        self._work_folder = work_folder
        self._group_bytes = group_bytes
        self._is_short_way = is_short_way
        self._group: list[_Part] = []
        self._read_pool = ThreadPoolExecutor(1, thread_name_prefix="tracekit-read")
        self._write_pool = ThreadPoolExecutor(1, thread_name_prefix="tracekit-write")
        self._slots: list[Future[None] | None] = [None, None]
        self._turn = 0
        self.rejected: list[Rejected] = []
        self.repaired: list[Repaired] = []

    def add(self, block: Block) -> None:
        """Have a block loaded, with others in one go; waits while two groups are under way."""
        if self._group and block.first_event_id != self._group[-1].block.behind_event_id:
            # What is read in one go is numbered through; between these two, events came as columns.
            self._submit()
        if not self._group:
            self._turn ^= 1
            busy = self._slots[self._turn]
            if busy is not None:
                busy.result()
        path = self._work_folder / f"block{self._turn}_{len(self._group)}.json"
        text_bytes = path.write_bytes(block.text)
        # The text is in the file; it is read again in the rare case that it is looked at.
        self._group.append(_Part(path, text_bytes, replace(block, text=b"")))
        text_bytes = sum(part.text_bytes for part in self._group)
        other = self._slots[self._turn ^ 1]
        # What has come while one statement ran goes into the next one, so that the first is early
        # and all are few.
        is_reader_idle = self._is_short_way and (other is None or other.done())
        if is_reader_idle or text_bytes >= self._group_bytes:
            self._submit()

    def _submit(self) -> None:
        group, self._group = self._group, []
        table = f"{SCRATCH}.block{self._turn}"
        read_into = None if self._is_short_way else table
        read = self._read_pool.submit(self._read, self._reader, read_into, group)
        self._slots[self._turn] = self._write_pool.submit(self._write, read, table, group)

    def wait(self) -> None:
        """Load what was added and wait for it; raise what the loading raised."""
        if self._group:
            self._submit()
        for slot in self._slots:
            if slot is not None:
                slot.result()

    def close(self) -> None:
        """Stop, and drop what is under way."""
        self._read_pool.shutdown(wait=True, cancel_futures=True)
        self._write_pool.shutdown(wait=True, cancel_futures=True)
        for turn in (0, 1):
            self._writer.execute(f"DROP TABLE IF EXISTS {SCRATCH}.block{turn}")
        self._reader.close()
        self._writer.close()

    def _read(
        self,
        cursor: duckdb.DuckDBPyConnection,
        table: str | None,
        group: Sequence[_Part],
    ) -> str | None:
        """Have DuckDB read a group of blocks into `table`, None for record itself.

        Returns:
            What DuckDB says if it cannot.
        """
        import duckdb

        paths = [str(part.path) for part in group]
        first_event_id = group[0].block.first_event_id
        text_bytes = max(part.text_bytes for part in group)
        try:
            if table is None:
                cursor.execute(direct_sql(self._trace_id, paths, first_event_id, text_bytes))
            else:
                cursor.execute(block_sql(table, paths, first_event_id, text_bytes))
        except (duckdb.InvalidInputException, duckdb.ConversionException) as error:
            return str(error).splitlines()[0]
        return None

    def _write(self, read: Future[str | None], table: str, group: Sequence[_Part]) -> None:
        message = read.result()
        if self._is_short_way:
            if message is not None:
                for part in group:
                    self._write_now(table, part)
            return
        self._write_long(message, table, group)

    def _write_long(self, message: str | None, table: str, group: Sequence[_Part]) -> None:
        fault_count = inexact_count = 0
        if message is None:
            census = self._writer.execute(census_sql(table)).fetchone()
            fault_count, inexact_count = census or (0, 0)
        if len(group) > 1 and (message is not None or fault_count or inexact_count):
            # Block by block: what is wrong is then known to be in this one.
            for part in group:
                self._write_now(table, part)
            return
        if message is not None:
            self._isolate(table, group[0], message)
            return
        if inexact_count:
            times = group[0].path.with_suffix(".times.json")
            times.write_bytes(exact_times(group[0].with_text()))
            self._writer.execute(exact_sql(table, str(times)))
        if fault_count:
            self._reject(table, group[0].with_text())
        self._writer.execute(insert_sql(self._trace_id, table))

    def _write_now(self, table: str, part: _Part) -> None:
        """Read and write one block the long way, on the writer's connection."""
        message = self._read(self._writer, table, [part])
        self._write_long(message, table, [part])

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
