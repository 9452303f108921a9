"""Collects the rows of events in file order.

The C parser (native/) writes almost all events directly into columns.
:mod:`tracekit.ingest.event_reader` reads the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from msgspec import Struct

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
"""Approximate size of a row without its strings."""


def event_columns() -> EventColumns:
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


class EventRows(Struct, frozen=True):
    row_count: int
    array: CapsuleType
    stream: MakeStream


class EventCollector:
    """Converts the events of a file to rows.

    `event_count` includes unreadable events. `text_bytes` is the approximate size of the rows that
    :meth:`take` has not returned yet.
    """

    def __init__(self) -> None:
        self._columns = event_columns()
        self.event_count = 0
        self.faults = Faults()
        self.text_bytes = 0

    def take(self) -> list[EventRows]:
        """Return the rows since the last call, if any, as one block."""
        self.text_bytes = 0
        row_count = self._columns.row_count
        array = self._columns.take()
        return [] if array is None else [EventRows(row_count, array, self._columns.stream)]

    def release(self) -> None:
        """Free the memory of the columns after the last event.

        Reference cycles keep readers alive after their file is closed.
        """
        self._columns.release()

    def read_usual(self, text: bytearray, base: int) -> tuple[int, Stop]:
        """Read the well-formed events at the beginning of an array.

        `text` has one byte in place of the opening bracket, at offset `base` of the plain text.
        Return the number of bytes read, up to the next event or including the closing bracket, and
        why reading stopped.
        """

        def read_odd(event: bytes, at: int, event_id: int) -> Row | bool:
            """Return the row of an unusual event, True if it needs none, or False if malformed."""
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
        """Read well-formed JSON values, each with its offset in the plain text of the file."""
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
        """Return the row of an event, or record why it has none and return None."""
        row, mended = row_of(text, event_id)
        if mended is not None:
            self.faults.repair(event_id, offset, mended)
        if isinstance(row, str):
            # XLA's writer ends its array with an empty object.
            if text[1:-1].strip():
                self.faults.reject(offset, row, text, event_id)
            return None
        return row
