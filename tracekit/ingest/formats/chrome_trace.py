"""Reader of Chrome traces, the JSON format of torch.profiler (Kineto), block by block.

The format: "Trace Event Format" (Google, 2016) as Kineto writes it: an object with a
``traceEvents`` array among other members, or the bare array. White space, line breaks, and the
order of members do not matter.

The parser reads the events of a block up to the last, possibly incomplete one, so memory is bounded
by the block size. :mod:`tracekit.ingest.salvage` reads malformed text event by event.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Final

from tracekit.errors import TraceError
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.event_collector import EventCollector, EventRows
from tracekit.ingest.salvage import (
    EVENT_START,
    MAX_EVENT_BYTES,
    PHASE_MEMBER,
    Salvager,
)
from tracekit.ingest.sources import usual_text_bytes
from tracekit.ingest.trace_metadata import OutsideText

BLOCK_BYTES = 2 << 20
"""Minimum size of a block of text. It determines peak memory, regardless of the file size."""

MAX_BLOCK_BYTES = 8 << 20
"""Maximum text per block of rows. Each block has a fixed cost in the store."""

_HEAD_BYTES = 64 << 10

_SMALL_WINDOW_BYTES = 4 << 10
"""Bytes searched at a time after a short array of events, for further arrays."""

_EVENTS_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')


OPEN_ARRAY = "the file ends inside the array of events"
"""Message for a file that ends after a complete event."""


class ChromeTraceReader:
    """Reader of a Chrome trace. Its attributes are complete after :meth:`blocks`."""

    def __init__(self, stream: ByteStream, *, block_bytes: int | None = None) -> None:
        self._stream = stream
        self._collector = EventCollector()
        self.faults = self._collector.faults
        self._salvager = Salvager(stream, self._collector)
        self._chunks = stream.__iter__()
        chosen = min(max(usual_text_bytes(stream.path) // 16, BLOCK_BYTES), MAX_BLOCK_BYTES)
        self._rows_bytes = block_bytes or chosen
        # Small blocks of text fit in the processor's cache.
        self._block_bytes = min(self._rows_bytes, BLOCK_BYTES)
        self._outside = OutsideText()
        self._nesting = Nesting()
        self._before_end = self._nesting
        # Position up to which text outside event arrays has been scanned, and whether the first
        # event there is known not to be stray.
        self._followed = 0
        self._is_stray_settled = False
        self._ahead: deque[memoryview] = deque()
        self._is_stream_ended = False
        self._window_bytes = self._block_bytes
        self.truncation: str | None = None
        self.found_array = False

    @property
    def event_count(self) -> int:
        return self._collector.event_count

    # -- reading ---------------------------------------------------------------------------

    def blocks(self) -> Iterator[EventRows]:
        try:
            for _ in self._read():
                if self._collector.text_bytes >= self._rows_bytes:
                    yield from self._collector.take()
            yield from self._collector.take()
        finally:
            self._chunks.close()
            self._collector.release()

    def _read(self) -> Iterator[None]:
        # Inside the array, a bracket replaces the byte before the next event, so that the buffer
        # always begins an array.
        buffer, base = bytearray(), 0
        inside = False
        wanted = _HEAD_BYTES
        while True:
            self._fill(buffer, wanted)
            if not inside:
                start, is_stray = self._events_start(buffer, base)
                if start is None:
                    if self._is_exhausted or len(buffer) > MAX_EVENT_BYTES:
                        self._outside.add(base, bytes(buffer))
                        break
                    wanted = 2 * len(buffer)
                    continue
                if is_stray:
                    # This bracket did not end the array, so record it as unreadable.
                    self._collector.faults.reject(
                        base - 1, "stray closing bracket", b"]" + buffer[:start]
                    )
                    self._outside.drop_last()
                    self._nesting = self._before_end
                else:
                    self._nesting.feed(buffer[self._followed : start])
                    self._outside.add(base, bytes(buffer[:start]))
                self._put_back(buffer, start)
                base, buffer = base + start - 1, bytearray(b"[")
                inside = self.found_array = True
                wanted = self._window_bytes
                continue
            consumed, array_ended = self._take(buffer, base)
            yield
            if array_ended:
                self._put_back(buffer, consumed)
                base, buffer = base + consumed, bytearray()
                inside = False
                self._outside.add(base - 1, b"]")
                self._before_end = self._nesting.copy()
                self._nesting.feed(b"]")
                self._followed, self._is_stray_settled = 0, False
                self._window_bytes = min(self._block_bytes, max(_SMALL_WINDOW_BYTES, 4 * consumed))
                wanted = min(_HEAD_BYTES, self._window_bytes)
            elif self._is_exhausted and (consumed <= 1 or consumed >= len(buffer)):
                self.truncation = self.truncation or OPEN_ARRAY
                self._outside.add(base + len(buffer), b"]")
                break
            elif consumed <= 1:
                wanted = max(self._window_bytes, 2 * len(buffer))
            else:
                rest = bytearray(b"[")
                rest += memoryview(buffer)[consumed:]
                base, buffer = base + consumed - 1, rest
                wanted = self._window_bytes = min(self._block_bytes, 8 * self._window_bytes)
        if self._stream.problem:
            # This reason replaces earlier ones, because a truncated gzip stream is the cause.
            if self._stream.is_truncated:
                self.truncation = self._stream.problem
            else:
                self._collector.faults.reject(base + len(buffer), self._stream.problem, b"")

    @property
    def _is_exhausted(self) -> bool:
        return self._is_stream_ended and not self._ahead

    def _fill(self, buffer: bytearray, wanted: int) -> None:
        while len(buffer) < wanted and not self._is_exhausted:
            if not self._ahead:
                chunk = next(self._chunks, None)
                if chunk is None:
                    self._is_stream_ended = True
                    break
                self._ahead.append(memoryview(chunk))
            piece = self._ahead.popleft()
            room = wanted - len(buffer)
            if len(piece) > room:
                self._ahead.appendleft(piece[room:])
                piece = piece[:room]
            buffer += piece

    def _put_back(self, buffer: bytearray, start: int) -> None:
        """Put the part of the buffer from ``start`` on back into the input."""
        if start < len(buffer):
            self._ahead.appendleft(memoryview(bytes(memoryview(buffer)[start:])))

    def _events_start(self, buffer: bytearray, base: int) -> tuple[int | None, bool]:
        """Return where the next events begin outside an array, and whether they are stray.

        Events begin after the ``[`` of an array. Stray events follow a ``]`` that did not end their
        array. The position is None if the buffer has neither.
        """
        if base == 0 and (bare := re.match(rb"\s*\[", buffer)):
            return bare.end(), False
        # If the array is not a member of the trace object, continue the search after it.
        for match in _EVENTS_ARRAY.finditer(buffer, self._followed):
            stray = self._stray_event(buffer, match.end())
            if stray is not None:
                return stray, True
            if not self._is_nested_at(buffer, match.start()):
                return match.end(), False
        return self._stray_event(buffer, len(buffer)), True

    def _stray_event(self, buffer: bytearray, stop: int) -> int | None:
        """Return where events continue after a ``]`` that did not end their array, or None.

        Only text before ``stop`` is searched. Events nested in a later member are not stray.
        """
        if not self.found_array or self._is_stray_settled:
            return None
        starts = EVENT_START.finditer(buffer, self._followed, stop)
        places = [match.start(1) for match in islice(starts, 9)]
        for start, following in pairwise([*places, stop]):
            if PHASE_MEMBER.search(buffer, start, following):
                self._is_stray_settled = self._is_nested_at(buffer, start)
                return None if self._is_stray_settled else start
        return None

    def _is_nested_at(self, buffer: bytearray, at: int) -> bool:
        """Return whether a position outside the event array is nested deeper than the trace object.

        Return True only if the brackets before it prove it, so that a damaged header hides no
        events. Call it with ascending positions.
        """
        self._nesting.feed(buffer[self._followed : at])
        self._followed = at
        return self._nesting.is_in_inner_object

    # -- one block ---------------------------------------------------------------------------

    def _take(self, buffer: bytearray, base: int) -> tuple[int, bool]:
        """Read events at the front of the buffer.

        Returns the number of bytes consumed, and whether the array ended.
        """
        used, stop = self._collector.read_usual(buffer, base)
        if stop == "ended":
            return used, True
        if stop == "more":
            if used > 1 or (not self._is_exhausted and len(buffer) <= MAX_EVENT_BYTES):
                return used, False
            if self._is_exhausted and self._read_rest(buffer, base):
                return len(buffer), False
        # The first byte of the buffer is the inserted bracket, so the events begin after it.
        salvaged = self._salvager.read(
            bytes(memoryview(buffer)[used:]), base + used, is_last=self._is_exhausted
        )
        self.truncation = salvaged.truncation or self.truncation
        return used + salvaged.consumed, salvaged.is_ended

    def _read_rest(self, buffer: bytearray, base: int) -> bool:
        """Read the last events of a file without a closing bracket."""
        rest = bytearray(memoryview(buffer).tobytes().rstrip(b" \t\r\n,") + b"]")
        return self._collector.read_usual(rest, base)[1] == "ended"

    def metadata(self) -> dict[str, object]:
        """Return all members of the trace object except its events, and record their faults."""
        members, truncation = self._outside.metadata(self._collector.faults)
        self.truncation = self.truncation or truncation
        return members

    def unreadable(self) -> TraceError:
        path, stream = self._stream.path, self._stream
        if stream.text_bytes == 0:
            why = "the file is empty" if stream.problem is None else stream.problem
            return TraceError(f"{path}: {why}", hint="record the trace again, or copy it again")
        if not self.found_array and stream.problem is not None:
            return TraceError(
                f"{path}: {stream.problem}, before the first event",
                hint="record the trace again, or copy it again",
            )
        if not self.found_array:
            return TraceError(
                f"{path}: not a Chrome trace: it has no array of trace events",
                hint='a trace is {"traceEvents": [...]} or [...], as torch.profiler exports it',
            )
        if self.faults.rejected:
            first = min(self.faults.rejected, key=lambda piece: piece.byte_offset)
            return TraceError(
                f"{path}: no readable event; the first one, at byte {first.byte_offset}, is "
                f"unreadable: {first.reason}",
                hint="record the trace again, or copy it again",
            )
        return TraceError(
            f"{path}: the trace has no events",
            hint="was the profiler active for at least one step?",
        )


MAX_DEPTH = 900
"""Maximum nesting depth. Deeper text is treated as damaged, as in the metadata parser."""

_TOKEN = re.compile(
    rb'[ \t\r\n]+|"(?:[^"\\\x00-\x1f]|\\.)*+"|[{}\[\]:,]'
    rb"|(?:-?\d[\d.eE+-]*|true|false|null)(?![\w.+-])",
    re.DOTALL,
)

_VALUE, _VALUE_OR_END, _KEY, _KEY_OR_END, _COLON, _NEXT, _DONE = range(7)
_AFTER_OPENING: Final = {b"{": _KEY_OR_END, b"[": _VALUE_OR_END}
_CLOSER: Final = {b"{": b"}"[0], b"[": b"]"[0]}


class Nesting:
    """Nesting state of JSON text that arrives in pieces."""

    def __init__(self) -> None:
        self._closers = bytearray()
        self._expected = _VALUE
        self._rest = b""
        self.is_broken = False

    def copy(self) -> Nesting:
        other = Nesting()
        other._closers = self._closers[:]
        other._expected, other._rest = self._expected, self._rest
        other.is_broken = self.is_broken
        return other

    @property
    def is_in_inner_object(self) -> bool:
        """Whether a member of an object inside the outermost one may begin here.

        True only if the brackets prove it, so False after damage.
        """
        return (
            not self.is_broken
            and not self._rest
            and self._expected in (_KEY, _KEY_OR_END)
            and len(self._closers) > 1
        )

    def feed(self, text: bytes | bytearray) -> None:
        if self.is_broken:
            return
        was_cut_off = bool(self._rest)
        text = self._rest + text if was_cut_off else text
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                break
            if not self._take(token.group()):
                self.is_broken, self._rest = True, b""
                return
            at = token.end()
        # A string may continue in the next piece, but not beyond it.
        self._rest = bytes(text[at:])
        if self._rest and (was_cut_off or not self._rest.startswith(b'"')):
            self.is_broken, self._rest = True, b""

    def _take(self, token: bytes | bytearray) -> bool:
        """Read one token. Return False if JSON does not allow it here."""
        first = token[:1]
        expected = self._expected
        if first in b" \t\r\n":
            return True
        if first == b'"' and expected in (_KEY, _KEY_OR_END):
            self._expected = _COLON
            return True
        if first == b":" and expected == _COLON:
            self._expected = _VALUE
            return True
        if first == b"," and expected == _NEXT:
            self._expected = _KEY if self._closers[-1] == b"}"[0] else _VALUE
            return True
        if first in b"}]":
            may_end = expected == _NEXT or (
                expected == (_KEY_OR_END if first == b"}" else _VALUE_OR_END)
            )
            if not may_end or not self._closers or self._closers.pop() != first[0]:
                return False
            self._expected = _NEXT if self._closers else _DONE
            return True
        if expected not in (_VALUE, _VALUE_OR_END) or first in b":,":
            return False
        if first in b"{[":
            self._closers.append(_CLOSER[bytes(first)])
            self._expected = _AFTER_OPENING[bytes(first)]
            return len(self._closers) <= MAX_DEPTH
        self._expected = _NEXT if self._closers else _DONE
        return True
