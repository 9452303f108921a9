"""Base class of the readers that convert another format to the events of a Chrome trace.

So all formats share one event reader. Byte offsets of faults refer to the converted text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tracekit.ingest.budget import Budget
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.event_collector import EventCollector, EventRows
from tracekit.ingest.json_values import is_utf8
from tracekit.ingest.repair import is_object

_TEXT_BYTES = 1 << 20

_BLOCK_BYTES = 8 << 20


class EventTextReader:
    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._budget = Budget(stream)
        self._collector = EventCollector()
        self._written_bytes = 0
        self._metadata: dict[str, Any] = {}
        self.faults = self._collector.faults
        self.truncation: str | None = None

    @property
    def event_count(self) -> int:
        return self._collector.event_count

    def metadata(self) -> dict[str, object]:
        description = self._read_metadata()
        self._budget.admit(description)
        self._budget.admit_event(description, "a description")
        return description

    def _read_metadata(self) -> dict[str, object]:
        return self._metadata

    def _rows(self, texts: Iterable[bytes]) -> Iterator[EventRows]:
        """Yield the rows of events. Each text is one event, a JSON object. Call it only once."""
        gathered: list[bytes] = []
        size = 0
        try:
            for text in texts:
                gathered.append(text)
                size += len(text)
                if size >= _TEXT_BYTES:
                    self._budget.spend(len(gathered), size)
                    self._take_in(gathered)
                    gathered, size = [], 0
                    if self._collector.text_bytes >= _BLOCK_BYTES:
                        yield from self._collector.take()
            self._budget.spend(len(gathered), size)
            self._take_in(gathered)
            yield from self._collector.take()
        finally:
            self._collector.release()

    def _take_in(self, texts: list[bytes]) -> None:
        """Read events with the C parser; after a malformed one, read the rest in Python."""
        before, at = self._collector.event_count, self._written_bytes
        block = bytearray(b"[" + b",".join(texts) + b"]")
        self._written_bytes += len(block) - 1
        if texts:
            self._collector.read_usual(block, at)
        read_count = self._collector.event_count - before
        self._collector.read_events(self._well_formed(texts, read_count, at + 1))

    def _well_formed(self, texts: list[bytes], first: int, at: int) -> Iterator[tuple[bytes, int]]:
        """Yield the texts from index `first` onward with their offsets; reject malformed JSON."""
        for number, text in enumerate(texts):
            if number >= first:
                if is_object(text) or not is_utf8(text):
                    yield text, at
                else:
                    self.faults.reject(at, "the row does not convert to JSON", text)
            at += len(text) + 1


def event_text(event: Mapping[str, Any]) -> bytes:
    """Return an event as JSON, with its times converted exactly from ns to µs."""
    times = {name: msgspec.Raw(us_text(event[name])) for name in ("ts", "dur") if name in event}
    return msgspec.json.encode({**event, **times})


def us_text(ns: int) -> bytes:
    """Return integer ns as text in µs with three decimals."""
    return b"%b%d.%03d" % (b"-" if ns < 0 else b"", abs(ns) // 1000, abs(ns) % 1000)
