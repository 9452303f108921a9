"""Collects the rows of events, in the order of the file, until someone takes them.

The parser in C (native/) puts usual events into columns straight from the text. Every other one is
read by :mod:`tracekit.ingest.event_reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.event_description import (
    EVENT_COLUMNS,
    KINDS,
    MAX_DUR_US,
    MAX_TIME_US,
    MIN_TIME_US,
)
from tracekit.ingest.event_reader import ROW_COLUMNS
from tracekit.ingest.event_reader import read_event as row_of
from tracekit.ingest.faults import Faults
from tracekit.ingest.json_values import is_utf8
from tracekit.ingest.repair import is_object, repair_object
from tracekit.native import EventColumns

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

    from tracekit.native import Row, Stop

    MakeStream = Callable[[Callable[[], CapsuleType | None]], AbstractContextManager[CapsuleType]]

_ROW_BYTES = 64
"""What a row takes besides its texts, roughly: events may be shorter than that."""


def event_columns() -> EventColumns:
    """Return the columns of a row, without rows."""
    described = {column.name: column for column in EVENT_COLUMNS}
    columns: list[tuple[str, str, str, tuple[str, ...], int | None]] = []
    for name in ROW_COLUMNS:
        column = described.get(name)
        if column is None:
            columns.append((name, "VARCHAR", "reader", (), None))
        else:
            columns.append((name, column.type, column.source, column.keys, column.none))
    kinds = [(kind.name, kind.phases, kind.event_name) for kind in KINDS]
    return EventColumns(columns, kinds, (MIN_TIME_US, MAX_TIME_US, MAX_DUR_US))


@dataclass(frozen=True, slots=True)
class EventRows:
    """Rows of consecutive events.

    Attributes:
        row_count: how many they are.
        array: what `stream` takes, once.
        stream: makes an Arrow stream of such arrays.
    """

    row_count: int
    array: CapsuleType
    stream: MakeStream


class EventCollector:
    """Makes rows of the events that someone finds in a file.

    Attributes:
        event_count: events so far, those too that are none that is read.
        faults: what was wrong with them.
        text_bytes: text that the rows which were not taken yet came from, roughly.
    """

    def __init__(self) -> None:
        self._columns = event_columns()
        self.event_count = 0
        self.faults = Faults()
        self.text_bytes = 0

    def take(self) -> EventRows | None:
        """Return the rows since the last time, None for none."""
        self.text_bytes = 0
        row_count = self._columns.row_count
        array = self._columns.take()
        return None if array is None else EventRows(row_count, array, self._columns.stream)

    def release(self) -> None:
        """Let go of the memory of columns, which outlives a block: nothing more will be read.

        Whoever reads a file is in a cycle of references, and may live on for some files more.
        """
        self._columns.release()

    def read_usual(self, text: bytearray, base: int) -> tuple[int, Stop]:
        """Read the events at the beginning of an array, to the extent that it is well-formed.

        Args:
            text: the first byte stands for the bracket that opens the array.
            base: offset of that byte in the plain text of the file.

        Returns:
            How many bytes are used up (to where the next event begins, or behind the closing
            bracket), and why reading stopped.
        """

        def read_odd(event: bytes, at: int, event_id: int) -> Row | bool:
            """Read an event that is not usual: its row, False if it is malformed, else True."""
            if not is_object(event):
                return False
            try:
                row = self.read_event(event, base + at, event_id)
            except RecursionError:
                return False
            return True if row is None else row

        event_count, used, stop = self._columns.read(text, self.event_count, read_odd)
        self.event_count += event_count
        self.text_bytes += used + _ROW_BYTES * event_count
        return used, stop

    def read_events(self, events: Iterable[tuple[bytes, int]]) -> None:
        """Read values that an array of events holds.

        Args:
            events: each a well-formed JSON value, with its offset in the plain text of the file.
        """
        for text, offset in events:
            self.text_bytes += len(text) + _ROW_BYTES
            if not text.startswith(b"{"):
                self.faults.reject(offset, "an event that is not an object", text)
                continue
            if not is_utf8(text):
                mended = repair_object(text)
                if mended is None:
                    self.faults.reject(offset, "invalid UTF-8", text)
                    continue
                text = mended[0]
                self.faults.repair(self.event_count, offset, mended[1])
            try:
                row = self.read_event(text, offset, self.event_count)
            except RecursionError:
                self.faults.reject(offset, "nested too deeply", text)
                continue
            self.event_count += 1
            if row is not None:
                self._columns.append(row)

    def read_event(self, text: bytes, offset: int, event_id: int) -> Row | None:
        """Return the row of an event, None where it is none and has been noted as such."""
        row, mended = row_of(text, event_id)
        if mended is not None:
            self.faults.repair(event_id, offset, mended)
        if isinstance(row, str):
            # An object without members holds nothing: XLA's writer ends its array with it.
            if text[1:-1].strip():
                self.faults.reject(offset, row, text, event_id)
            return None
        return row
