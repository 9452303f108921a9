"""Finds the arrays of events in the text of a Chrome trace, and has them read piece by piece.

The format: "Trace Event Format" (Google, 2016) as Kineto writes it: an object with a
``traceEvents`` array among other members, or the bare array. Nothing is assumed about white space,
line breaks or the order of members.

The parser reads events up to the last one that is surely followed by another, and says where it
stopped, so memory is bounded by the piece. Only where text is malformed,
:mod:`tracekit.ingest.salvage` reads event by event.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Generator, Iterator
from itertools import islice, pairwise
from typing import Final

from tracekit.errors import TraceError
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.event_collector import EventCollector
from tracekit.ingest.faults import Faults
from tracekit.ingest.salvage import (
    EVENT_START,
    MAX_EVENT_BYTES,
    PHASE_MEMBER,
    Salvager,
)
from tracekit.ingest.trace_metadata import OutsideText

BLOCK_BYTES = 2 << 20
"""Plain text that is read at once, at least. Peak memory grows with it, not with the file."""

_HEAD_BYTES = 64 << 10

_SMALL_WINDOW_BYTES = 4 << 10
"""Text that is looked at once behind an array of events that was short: more such may follow."""

_EVENTS_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')


OPEN_ARRAY = "the file ends inside the array of events"
"""What is said of a file whose last event is whole, and nothing behind it."""


class TraceText:
    """Reads one trace from a stream of plain bytes.

    Iterate over :meth:`read` to the end; the other attributes are complete only then.

    Args:
        stream: the plain bytes.
        collector: takes the events.
        block_bytes: text that is read at once, at least.

    Attributes:
        truncation: why the trace counts as cut off, or None.
        found_array: whether there was an array of events at all.
    """

    def __init__(
        self, stream: ByteStream, collector: EventCollector, block_bytes: int = BLOCK_BYTES
    ) -> None:
        self._stream = stream
        self._collector = collector
        self._salvager = Salvager(stream, collector)
        self._chunks = stream.__iter__()
        self._block_bytes = block_bytes
        self._outside = OutsideText()
        self._nesting = Nesting()
        self._before_end = self._nesting
        # Of the text outside that is in the buffer: how far it was followed, and whether an event
        # in it was found to be no stray one.
        self._followed = 0
        self._is_stray_settled = False
        self._ahead: deque[memoryview] = deque()
        self._is_stream_ended = False
        self._window_bytes = block_bytes
        self.truncation: str | None = None
        self.found_array = False

    # -- reading ---------------------------------------------------------------------------

    def read(self) -> Generator[None, None, None]:
        """Have all events read; yields now and then, in between.

        Raises:
            TraceError: the file cannot be read.
        """
        try:
            yield from self._read()
        finally:
            self._chunks.close()

    def _read(self) -> Iterator[None]:
        # Inside the array the buffer begins with a bracket of ours: it stands where the byte before
        # the next event stood, and makes whatever is cut off the front an array.
        buffer, base = bytearray(), 0
        inside = False
        wanted = _HEAD_BYTES
        while True:
            self._fill(buffer, wanted)
            if not inside:
                start, is_stray = self._events_start(buffer, base)
                if start is None:
                    if self._exhausted or len(buffer) > MAX_EVENT_BYTES:
                        self._outside.add(base, bytes(buffer))
                        break
                    wanted = 2 * len(buffer)
                    continue
                if is_stray:
                    # The bracket was no end: it goes to what could not be read.
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
            elif self._exhausted and (consumed <= 1 or consumed >= len(buffer)):
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
            # Said first: a cut-off gzip stream is why the text ends early.
            if self._stream.is_truncated:
                self.truncation = self._stream.problem
            else:
                self._collector.faults.reject(base + len(buffer), self._stream.problem, b"")

    @property
    def _exhausted(self) -> bool:
        """Whether the buffer holds the end of the file."""
        return self._is_stream_ended and not self._ahead

    def _fill(self, buffer: bytearray, wanted: int) -> None:
        while len(buffer) < wanted and not self._exhausted:
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
        """Have what stands in the buffer from ``start`` on be read again."""
        if start < len(buffer):
            self._ahead.appendleft(memoryview(bytes(memoryview(buffer)[start:])))

    def _events_start(self, buffer: bytearray, base: int) -> tuple[int | None, bool]:
        """Return where events begin outside an array, and whether they are stray ones.

        That is behind the ``[`` that opens the next array of events; or, stray, where events go on
        behind a ``]`` that did not end them. None: neither is in the buffer.
        """
        if base == 0 and (bare := re.match(rb"\s*\[", buffer)):
            return bare.end(), False
        # What is behind an array that was found not to be one of the trace is not looked at again.
        for match in _EVENTS_ARRAY.finditer(buffer, self._followed):
            stray = self._stray_event(buffer, match.end())
            if stray is not None:
                return stray, True
            if not self._is_nested_at(buffer, match.start()):
                return match.end(), False
        return self._stray_event(buffer, len(buffer)), True

    def _stray_event(self, buffer: bytearray, stop: int) -> int | None:
        """Return where events go on behind a ``]`` that did not end them, if before ``stop``.

        Nothing that may stand behind the array has events in it, but arrays of its own.
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
        """Tell whether a place in the text outside is in something deeper than the trace object.

        Only where the brackets before it prove it: a damaged header must not hide the events.
        Places are asked for in their order in the file.
        """
        self._nesting.feed(buffer[self._followed : at])
        self._followed = at
        return self._nesting.is_in_inner_object

    # -- one block ---------------------------------------------------------------------------

    def _take(self, buffer: bytearray, base: int) -> tuple[int, bool]:
        """Have events at the front of the buffer read.

        Returns how many bytes of the buffer are used up, and whether the array ended.
        """
        used, stop = self._collector.read_usual(buffer, base)
        if stop == "ended":
            return used, True
        if stop == "more":
            if used > 1 or (not self._exhausted and len(buffer) <= MAX_EVENT_BYTES):
                return used, False
            if self._exhausted and self._read_rest(buffer, base):
                return len(buffer), False
        # Our bracket in front stands for the byte before: the text of the events begins behind it.
        salvaged = self._salvager.read(
            bytes(memoryview(buffer)[used:]), base + used, is_last=self._exhausted
        )
        self.truncation = salvaged.truncation or self.truncation
        return used + salvaged.consumed, salvaged.is_ended

    def _read_rest(self, buffer: bytearray, base: int) -> bool:
        """Read the last events of a file that only lacks the bracket behind them."""
        rest = bytearray(memoryview(buffer).tobytes().rstrip(b" \t\r\n,") + b"]")
        return self._collector.read_usual(rest, base)[1] == "ended"

    def metadata(self) -> dict[str, object]:
        """Return the members of the trace object other than its events.

        Unreadable metadata and text behind the trace are noted among the faults.
        """
        members, truncation = self._outside.metadata(self._collector.faults)
        self.truncation = self.truncation or truncation
        return members


def unreadable(path: object, stream: ByteStream, text: TraceText, faults: Faults) -> TraceError:
    """Return the error for a file in which no event could be read."""
    if stream.text_bytes == 0:
        why = "the file is empty" if stream.problem is None else stream.problem
        return TraceError(f"{path}: {why}", hint="record the trace again, or copy it again")
    if not text.found_array and stream.problem is not None:
        return TraceError(
            f"{path}: {stream.problem}, before the first event",
            hint="record the trace again, or copy it again",
        )
    if not text.found_array:
        return TraceError(
            f"{path}: not a Chrome trace: it has no array of trace events",
            hint='a trace is {"traceEvents": [...]} or [...], as torch.profiler exports it',
        )
    if faults.rejected:
        first = min(faults.rejected, key=lambda piece: piece.byte_offset)
        return TraceError(
            f"{path}: no readable event; the first one, at byte {first.byte_offset}, is unreadable:"
            f" {first.reason}",
            hint="record the trace again, or copy it again",
        )
    return TraceError(
        f"{path}: the trace has no events", hint="was the profiler active for at least one step?"
    )


MAX_DEPTH = 900
"""Deeper texts are taken for damaged, as by the parser that reads them in the end."""

_TOKEN = re.compile(
    rb'[ \t\r\n]+|"(?:[^"\\\x00-\x1f]|\\.)*+"|[{}\[\]:,]'
    rb"|(?:-?\d[\d.eE+-]*|true|false|null)(?![\w.+-])",
    re.DOTALL,
)

_VALUE, _VALUE_OR_END, _KEY, _KEY_OR_END, _COLON, _NEXT, _DONE = range(7)
_AFTER_OPENING: Final = {b"{": _KEY_OR_END, b"[": _VALUE_OR_END}
_CLOSER: Final = {b"{": b"}"[0], b"[": b"]"[0]}


class Nesting:
    """Where in a JSON text one is.

    Attributes:
        is_broken: the text so far is no beginning of a JSON text.
    """

    def __init__(self) -> None:
        self._closers = bytearray()
        self._expected = _VALUE
        self._rest = b""
        self.is_broken = False

    def copy(self) -> Nesting:
        """Return another one that stands at the same place."""
        other = Nesting()
        other._closers = self._closers[:]
        other._expected, other._rest = self._expected, self._rest
        other.is_broken = self.is_broken
        return other

    @property
    def is_in_inner_object(self) -> bool:
        """Whether a member of an object inside the outermost one may stand here.

        Only where the brackets prove it: nothing can be said behind damage.
        """
        return (
            not self.is_broken
            and not self._rest
            and self._expected in (_KEY, _KEY_OR_END)
            and len(self._closers) > 1
        )

    def feed(self, text: bytes | bytearray) -> None:
        """Read on."""
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
        # A token may be cut off at the end of what there is, but not for ever.
        self._rest = bytes(text[at:])
        if self._rest and (was_cut_off or not self._rest.startswith(b'"')):
            self.is_broken, self._rest = True, b""

    def _take(self, token: bytes | bytearray) -> bool:
        """Go one token further; False where it cannot stand."""
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
