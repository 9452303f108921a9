"""Reader of Chrome traces, the JSON format of torch.profiler (Kineto) and other profilers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracekit.ingest.array_frames import BLOCK_BYTES, TraceText, unreadable
from tracekit.ingest.event_collector import EventCollector, EventRows
from tracekit.ingest.sources import usual_text_bytes

if TYPE_CHECKING:
    from tracekit.errors import TraceError
    from tracekit.ingest.byte_stream import ByteStream

MAX_BLOCK_BYTES = 8 << 20
"""Maximum text per block of rows. Each block has a fixed cost in the store."""


class ChromeTraceReader:
    def __init__(self, stream: ByteStream, *, block_bytes: int | None = None) -> None:
        self._stream = stream
        self._collector = EventCollector()
        self.faults = self._collector.faults
        chosen = min(max(usual_text_bytes(stream.path) // 16, BLOCK_BYTES), MAX_BLOCK_BYTES)
        self._block_bytes = block_bytes or chosen
        # Small blocks stay in the processor's cache.
        self._text = TraceText(stream, self._collector, min(self._block_bytes, BLOCK_BYTES))

    @property
    def event_count(self) -> int:
        return self._collector.event_count

    @property
    def truncation(self) -> str | None:
        return self._text.truncation

    def blocks(self) -> Iterator[EventRows]:
        try:
            for _ in self._text.read():
                if self._collector.text_bytes >= self._block_bytes:
                    yield from self._new_rows()
            yield from self._new_rows()
        finally:
            self._collector.release()

    def _new_rows(self) -> Iterator[EventRows]:
        rows = self._collector.take()
        if rows is not None:
            yield rows

    def metadata(self) -> dict[str, object]:
        return self._text.metadata()

    def unreadable(self) -> TraceError:
        return unreadable(self._stream.path, self._stream, self._text, self.faults)
