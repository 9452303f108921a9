"""Collects the rows of events, in the order of the file, until someone takes them.

The compiled parser (native/) puts usual events into columns straight from the text. Every other
one, and every one where the parser is not compiled, is read by :mod:`tracekit.ingest.event_reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from tracekit.event_description import (
    EVENT_COLUMNS,
    KINDS,
    MAX_DUR_US,
    MAX_TIME_US,
    MIN_TIME_US,
)
from tracekit.ingest.event_reader import ROW_COLUMNS, Row
from tracekit.ingest.event_reader import read_event as row_of
from tracekit.ingest.faults import Faults
from tracekit.ingest.json_values import array_end, compact, is_utf8, items
from tracekit.ingest.repair import is_object, repair_object

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

    from tracekit.ingest._event_parser import Columns

    MakeStream = Callable[[Callable[[], Any]], CapsuleType]

Stop = Literal["more", "ended", "damaged"]
"""Why usual reading stopped: the text ends, the array of events does, or what stands there is no
event that is followed by another one."""

_ROW_BYTES = 64
"""What a row takes besides its texts, roughly: events may be shorter than that."""


def compiled_columns() -> Columns | None:
    """Return what the compiled parser reads into; None where there was no C compiler for it."""
    try:
        from tracekit.ingest._event_parser import Columns
    except ImportError:
        return None
    described = {column.name: column for column in EVENT_COLUMNS}
    columns: list[tuple[str, str, str, tuple[str, ...], int | None]] = []
    for name in ROW_COLUMNS:
        column = described.get(name)
        if column is None:
            columns.append((name, "VARCHAR", "reader", (), None))
        else:
            columns.append((name, column.type, column.source, column.keys, column.none))
    kinds = tuple((kind.name, kind.phases, kind.event_name) for kind in KINDS)
    return Columns(tuple(columns), kinds, (MIN_TIME_US, MAX_TIME_US, MAX_DUR_US))


class _Rows:
    """Rows of events as Python has them, where no parser is compiled."""

    def __init__(self) -> None:
        self._rows: list[Row] = []

    @property
    def row_count(self) -> int:
        return len(self._rows)

    def append(self, row: Row) -> None:
        self._rows.append(row)

    def take(self) -> Sequence[Sequence[Any]] | None:
        """Return the values of each column since the last time; None for no rows."""
        rows, self._rows = self._rows, []
        return [list(values) for values in zip(*rows, strict=True)] if rows else None


@dataclass(frozen=True, slots=True)
class EventRows:
    """Rows of consecutive events.

    Attributes:
        row_count: how many they are.
        array: what `stream` takes, once; the values of each column where there is none.
        stream: makes an Arrow stream of such arrays; None for lists of values.
    """

    row_count: int
    array: Any
    stream: MakeStream | None = None


class Collector(Protocol):
    """Takes events from whoever finds them in a file.

    Attributes:
        event_count: events so far, those too that are none that is read.
        faults: what was wrong with them.
    """

    event_count: int
    faults: Faults

    def read_usual(self, text: bytearray, base: int) -> tuple[int, Stop] | None:
        """Read the events at the beginning of an array, as far as it is well-formed.

        Args:
            text: the first byte stands for the bracket that opens the array.
            base: offset of that byte in the plain text of the file.

        Returns:
            How many bytes are used up (to where the next event begins, or behind the closing
            bracket), and why reading stopped. None: not done here.
        """

    def read_array(self, text: memoryview, base: int) -> int | None:
        """Read a whole array of events.

        Args:
            text: the array; there may be more behind it.
            base: its offset in the plain text of the file.

        Returns:
            The index of the bracket that closes the array. None if the text is malformed before
            that; nothing has been read then.
        """

    def read_events(self, events: Iterable[tuple[bytes, int]]) -> None:
        """Read values that an array of events holds.

        Args:
            events: each a well-formed JSON value, with its offset in the plain text of the file.
        """


class EventCollector:
    """A :class:`Collector` that makes rows.

    Args:
        is_compiled: let the compiled parser read what it can, where there is one.

    Attributes:
        event_count: events so far, those too that are none that is read.
        faults: what was wrong with them.
        text_bytes: text that the rows which were not taken yet came from, roughly.
    """

    def __init__(self, *, is_compiled: bool = True) -> None:
        self._compiled = compiled_columns() if is_compiled else None
        self._columns: Columns | _Rows = self._compiled or _Rows()
        self.event_count = 0
        self.faults = Faults()
        self.text_bytes = 0

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled parser reads what it can."""
        return self._compiled is not None

    def take(self) -> EventRows | None:
        """Return the rows since the last time, None for none."""
        self.text_bytes = 0
        row_count = self._columns.row_count
        array = self._columns.take()
        stream = None if self._compiled is None else self._compiled.stream
        return None if array is None else EventRows(row_count, array, stream)

    def release(self) -> None:
        """Let go of the memory of columns, which outlives a block: nothing more will be read.

        Whoever reads a file is in a cycle of references, and may live on for some files more.
        """
        self._compiled, self._columns = None, _Rows()

    def read_usual(self, text: bytearray, base: int) -> tuple[int, Stop] | None:
        """Read the usual events at the beginning of an array; see :class:`Collector`."""
        if self._compiled is None:
            return None

        def read_odd(event: bytes, at: int, event_id: int) -> Row | bool:
            """Read an event that is not usual: its row, False if it is malformed, else True."""
            if not is_object(event):
                return False
            try:
                row = self.read_event(event, base + at, event_id)
            except RecursionError:
                return False
            return True if row is None else row

        event_count, used, stop = self._compiled.read(text, self.event_count, read_odd)
        self.event_count += event_count
        self.text_bytes += used + _ROW_BYTES * event_count
        return used, stop

    def read_array(self, text: memoryview, base: int) -> int | None:
        """Read a whole array of events; see :class:`Collector`."""
        try:
            compact(text)
        except RecursionError:
            return None
        except msgspec.DecodeError as error:
            end = array_end(bytes(text), error)
            if end is None:
                return None
            text = text[: end + 1]
        self.read_events(items(bytes(text), base))
        return len(text) - 1

    def read_events(self, events: Iterable[tuple[bytes, int]]) -> None:
        """Read values that an array of events holds; see :class:`Collector`."""
        for text, offset in events:
            self.text_bytes += len(text) + _ROW_BYTES
            if not text.startswith(b"{"):
                self.faults.reject(offset, "an event that is no object", text)
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
