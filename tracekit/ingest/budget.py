"""Limits on the amount of data that a reader may produce from one file.

A file of a few hundred bytes can expand to gigabytes if its events share lists, database pages, or
statistics. So the limits are proportional to the file size, with room for the names and stacks that
events of real profiles share.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tracekit.errors import TraceError

if TYPE_CHECKING:
    from tracekit.ingest.byte_stream import ByteStream

FREE_BYTES, BYTES_PER_BYTE = 64 << 20, 256
"""Maximum text of all events: a number of bytes, plus a number per byte of the file."""

FREE_ROWS, ROWS_PER_BYTE = 100_000, 1
"""Maximum number of events, fixed and per byte: events of all formats take several bytes."""

FREE_S, S_PER_BYTE = 3.0, 2e-7
"""Maximum CPU time between two blocks of events, in seconds: fixed, plus per byte of the file."""

FREE_INFLATED_BYTES, INFLATED_PER_BYTE = 32 << 20, 64
"""Maximum number of bytes inflated from gzip. Traces have a compression ratio of at most 30."""

MAX_EVENT_BYTES = 32 << 20
"""Maximum size of one event or of the metadata, of which memory holds several copies."""

MAX_HELD_BYTES = 128 << 20
"""Approximate maximum size of incomplete objects in memory, bytes."""

MAX_DEPTH = 100


class Budget:
    """Remaining limits while reading one file."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._rows = self._bytes = self._held_bytes = 0
        self._progress_s = time.thread_time()
        self._known: dict[int, tuple[int, int]] = {}

    def spend(self, rows: int, text_bytes: int) -> None:
        self._rows += rows
        self._bytes += text_bytes
        self._progress_s = time.thread_time()
        read = self._stream.text_bytes
        if self._rows > FREE_ROWS + ROWS_PER_BYTE * read:
            raise self.exceeded(f"more than {FREE_ROWS + ROWS_PER_BYTE * read:,} events")
        self.admit_bytes(self._bytes)

    def admit_bytes(self, text_bytes: int) -> None:
        allowed = FREE_BYTES + BYTES_PER_BYTE * self._stream.text_bytes
        if text_bytes > allowed:
            raise self.exceeded(f"more than {allowed >> 20:,} MiB of events")

    def hold(self, held_bytes: int) -> None:
        """Count bytes in memory; a negative number frees them."""
        self._held_bytes += held_bytes
        if self._held_bytes > MAX_HELD_BYTES:
            raise self.exceeded(f"more than {MAX_HELD_BYTES >> 20} MiB outside complete events")

    def is_stuck(self) -> bool:
        """Return whether this thread has used too much CPU time since the last events.

        CPU time does not depend on the load of the machine.
        """
        allowed_s = FREE_S + S_PER_BYTE * self._stream.text_bytes
        return time.thread_time() - self._progress_s > allowed_s

    def exceeded(self, what: str) -> TraceError:
        return TraceError(
            f"{self._stream.path}: {self._stream.text_bytes:,} bytes expand to {what}, "
            "which no profiler writes",
            hint="the file is damaged or malicious: record it again",
        )

    def admit(self, content: object) -> None:
        """Check the depth and the serialized length of a value.

        A shared part is visited once, but its length counts for every occurrence.
        """
        known = self._known  # by id: serialized bytes, and depth

        def measured(value: object, depth: int) -> tuple[int, int]:
            if isinstance(value, str | bytes):
                return len(value), 0
            if not isinstance(value, dict | list | tuple):
                return 8, 0
            result = known.get(id(value))
            if result is None:
                known[id(value)] = 0, MAX_DEPTH  # a value that contains itself is too deep
                total, height = 8, 0
                if isinstance(value, dict):
                    total += sum(len(key) for key in value if isinstance(key, str))
                if depth < MAX_DEPTH:
                    for part in value.values() if isinstance(value, dict) else value:
                        part_bytes, part_height = measured(part, depth + 1)
                        total += part_bytes
                        height = max(height, part_height + 1)
                    self.admit_bytes(total)
                result = known[id(value)] = total, height
            if depth + result[1] >= MAX_DEPTH:
                raise self.exceeded(f"lists nested {MAX_DEPTH} levels or more")
            return result

        measured(content, 0)

    def admit_event(self, part: object, what: str = "an event") -> None:
        """Check that a part of an admitted value is short enough for one event."""
        if self._known.get(id(part), (0, 0))[0] > MAX_EVENT_BYTES:
            raise self.exceeded(f"{what} longer than {MAX_EVENT_BYTES >> 20} MiB")
