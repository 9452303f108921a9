"""What one file may come to: the bounds of every reader, in one place.

A file of a few hundred bytes can stand for gigabytes: lists that are shared, pages of a database
that are, statistics that all events share. So what comes out is bounded by what went in. A file as
a profiler writes it stays far below each bound: its longest names and stacks, shared by all of its
events, come to some hundred times its bytes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tracekit.errors import TraceError

if TYPE_CHECKING:
    from tracekit.ingest.byte_stream import ByteStream

FREE_BYTES, BYTES_PER_BYTE = 64 << 20, 256
"""Bytes that the events of a file may have as text: of any file, and more for each byte of it."""

FREE_ROWS, ROWS_PER_BYTE = 100_000, 1
"""Events: the shortest that any format can write takes several bytes."""

FREE_S, S_PER_BYTE = 3.0, 2e-7
"""Seconds of the processor that a reading may take until its next events come."""

FREE_INFLATED_BYTES, INFLATED_PER_BYTE = 32 << 20, 64
"""Plain bytes that may come of gzip: traces shrink to a thirtieth at most."""

MAX_EVENT_BYTES = 32 << 20
"""Bytes of one event, and of what a file says of itself: held in memory, in several forms."""

MAX_HELD_BYTES = 128 << 20
"""Bytes that a reader may hold until the rest of what they belong to comes, roughly."""

MAX_DEPTH = 100
"""How deep values may be nested."""


class Budget:
    """What the reading of one file may still take.

    Args:
        stream: the plain bytes of the file; those that were read so far count.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._rows = self._bytes = self._held_bytes = 0
        self._progress_s = time.thread_time()
        self._known: dict[int, tuple[int, int]] = {}

    def spend(self, rows: int, text_bytes: int) -> None:
        """Count events that were read, and the bytes of their text.

        Raises:
            TraceError: they are more than a file of this size can hold.
        """
        self._rows += rows
        self._bytes += text_bytes
        self._progress_s = time.thread_time()
        read = self._stream.text_bytes
        if self._rows > FREE_ROWS + ROWS_PER_BYTE * read:
            raise self.exceeded(f"more than {FREE_ROWS + ROWS_PER_BYTE * read:,} events")
        self.admit_bytes(self._bytes)

    def admit_bytes(self, text_bytes: int) -> None:
        """Look whether so much text may come of the file.

        Raises:
            TraceError: it is more than a file of this size can hold.
        """
        allowed = FREE_BYTES + BYTES_PER_BYTE * self._stream.text_bytes
        if text_bytes > allowed:
            raise self.exceeded(f"more than {allowed >> 20:,} MiB of events")

    def hold(self, held_bytes: int) -> None:
        """Count bytes that are held in memory; fewer than 0 are let go.

        Raises:
            TraceError: they are too many.
        """
        self._held_bytes += held_bytes
        if self._held_bytes > MAX_HELD_BYTES:
            raise self.exceeded(f"more than {MAX_HELD_BYTES >> 20} MiB outside complete events")

    def is_stuck(self) -> bool:
        """Whether the reading has taken too long since its last events.

        By the processor's time of this thread, so that a busy machine does not decide.
        """
        allowed_s = FREE_S + S_PER_BYTE * self._stream.text_bytes
        return time.thread_time() - self._progress_s > allowed_s

    def exceeded(self, what: str) -> TraceError:
        """Return the error for a file that comes to more than it may."""
        return TraceError(
            f"{self._stream.path}: {self._stream.text_bytes:,} bytes expand to {what}, "
            "which no profiler writes",
            hint="the file is damaged or malicious: record it again",
        )

    def admit(self, content: object) -> None:
        """Look whether a value may be taken apart: how deep and how long it is, written out.

        What is shared counts wherever it stands, and is looked at once.

        Raises:
            TraceError: it is too deep, too long, or in itself.
        """
        known = self._known  # by id: bytes written out, and depth

        def measured(value: object, depth: int) -> tuple[int, int]:
            if isinstance(value, str | bytes):
                return len(value), 0
            if not isinstance(value, dict | list | tuple):
                return 8, 0
            found = known.get(id(value))
            if found is None:
                known[id(value)] = 0, MAX_DEPTH  # in itself it is too deep
                total, height = 8, 0
                if isinstance(value, dict):
                    total += sum(len(key) for key in value if isinstance(key, str))
                if depth < MAX_DEPTH:
                    for part in value.values() if isinstance(value, dict) else value:
                        part_bytes, part_height = measured(part, depth + 1)
                        total += part_bytes
                        height = max(height, part_height + 1)
                    self.admit_bytes(total)
                found = known[id(value)] = total, height
            if depth + found[1] >= MAX_DEPTH:
                raise self.exceeded(f"lists nested {MAX_DEPTH} levels or more")
            return found

        measured(content, 0)

    def admit_event(self, part: object, what: str = "an event") -> None:
        """Look whether a part of a content that was admitted is short enough for one event.

        Raises:
            TraceError: it is too long.
        """
        if self._known.get(id(part), (0, 0))[0] > MAX_EVENT_BYTES:
            raise self.exceeded(f"{what} longer than {MAX_EVENT_BYTES >> 20} MiB")
