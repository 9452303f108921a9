"""Splits the text of a Chrome trace into blocks of whole events.

The format: "Trace Event Format" (Google, 2016) as Kineto writes it: an object with a
``traceEvents`` array among other members, or the bare array. Nothing is assumed about white space,
line breaks or the order of members.

Most blocks are read at once, into columns, by the compiled parser (native/), which also finds where
they end. What it does not read goes the thorough way:

How a block is cut: at a comma between two objects near the end of the buffer. Whether that comma
stands between two *events*, and not inside one, is settled by the parser: ``[`` + block + ``]``
decodes if and only if the cut was right. So memory is bounded by the block, and a wrong cut cannot
pass. Only a block that does not decode is looked at event by event.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import msgspec

from tracekit.errors import TraceError
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.nesting import Nesting
from tracekit.ingest.repair import is_object, repair_object

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

    ParseEvents = Callable[[bytearray, int], tuple[CapsuleType, int, int, bool] | None]

BLOCK_BYTES = 2 << 20
"""Plain text per block, at least. Peak memory grows with it, not with the file."""

MAX_BLOCK_BYTES = 8 << 20
"""Plain text per block, at most: every block costs DuckDB a few ms of planning."""

MAX_EVENT_BYTES = 64 << 20
"""An event or a header longer than this is not one; bounds memory on hostile files."""

SALVAGE_WINDOW_BYTES = 256 << 10
DAMAGE_WINDOW_BYTES = 4 << 10
"""How much text is read at once behind a damaged event: damage seldom comes alone."""

_HEAD_BYTES = 64 << 10

_SMALL_WINDOW_BYTES = 4 << 10
"""Text that is looked at once behind an array of events that was short: more such may follow."""

_FREE_EFFORT_BYTES = 4 << 20
_EFFORT_PER_BYTE = 16
"""How much text may be decoded in search of whole events amid damage, per byte of the trace."""

_ATTEMPT_BYTES = 64
"""What an attempt to decode costs besides, in bytes."""

REJECTED_TEXT_BYTES = 2048
EXTRA_KEY = "tracekit.extra"
"""Member under which members of an event that have no column travel to the loader."""

Raw = msgspec.Raw


class _Event(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The members of an event that have columns. Raw: checked for well-formedness, not read.

    The default is None although it is no Raw: a shared default costs nothing, a Raw object each.
    """

    ph: Raw = None  # type: ignore[assignment]
    cat: Raw = None  # type: ignore[assignment]
    name: Raw = None  # type: ignore[assignment]
    pid: Raw = None  # type: ignore[assignment]
    tid: Raw = None  # type: ignore[assignment]
    ts: Raw = None  # type: ignore[assignment]
    dur: Raw = None  # type: ignore[assignment]
    id: Raw = None  # type: ignore[assignment]
    s: Raw = None  # type: ignore[assignment]
    bp: Raw = None  # type: ignore[assignment]
    args: Raw = None  # type: ignore[assignment]


EVENT_MEMBERS = _Event.__struct_fields__

_typed_events = msgspec.json.Decoder(list[_Event])
_raw = msgspec.json.Decoder(Raw)
_raw_events = msgspec.json.Decoder(list[Raw])
_members = msgspec.json.Decoder(dict[str, Raw])

_strict_json = json.JSONDecoder()

_EVENTS_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_COMMA = re.compile(rb"\s*,[\s,]*")
_OBJECT_ARRAY_END = re.compile(rb"\}\s*(\])")
_OBJECT_END = re.compile(rb"(\})\s*,")
_BETWEEN_OBJECTS = re.compile(rb"\}\s*(,)\s*\{\s*\"")
# Where an event may begin: behind a comma; where its first member is the phase, behind anything.
_EVENT_START = re.compile(
    rb'(?:(?:^|,)\s*(?=\{\s*"(?:cat|name|pid|tid|ts|dur|id|s|bp|args)"\s*:)|(?=\{\s*"ph"\s*:))(\{)',
    re.ASCII,
)
_EVENT_HEAD = re.compile(rb'\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|s|bp|args)"\s*:', re.ASCII)
_PHASE_MEMBER = re.compile(rb'"ph"\s*:\s*"')
_ERROR_BYTE = re.compile(r"\(byte (\d+)\)")
_JSON_TOKEN_OR_COMMA = re.compile(r'"(?:[^"\\]|\\.)*["\\]?|[{}\[\],]', re.DOTALL)
_LEADING_SEPARATORS = re.compile(rb"[\s,]*")


def _compiled_parser() -> ParseEvents | None:
    """Return the parser in C; None where there was no C compiler when tracekit was installed."""
    try:
        from tracekit.ingest._event_parser import parse_events
    except ImportError:
        return None
    return parse_events


parse_events = _compiled_parser()


@dataclass(frozen=True, slots=True)
class Rejected:
    """A piece of the file that could not be read: offset in the plain text, why, its beginning."""

    byte_offset: int
    reason: str
    text: str
    event_id: int | None = None


@dataclass(frozen=True, slots=True)
class Repaired:
    """An event that was read after mending its text: its id, offset in the plain text, what."""

    event_id: int
    byte_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Block:
    """A run of whole events.

    Attributes:
        text: a well-formed JSON array of objects with only :data:`EVENT_MEMBERS` and, for members
            that have no column, :data:`EXTRA_KEY`.
        first_event_id: position in the file of the first event.
        event_count: how many events the array holds.
        byte_offset: offset in the plain text of ``text[0]`` (one before what follows the bracket).
        offsets: where each event began, where the text was rebuilt; else None.
    """

    text: bytes | memoryview
    first_event_id: int
    event_count: int
    byte_offset: int
    offsets: tuple[int, ...] | None = None

    @property
    def behind_event_id(self) -> int:
        """Position in the file of the event behind the last one."""
        return self.first_event_id + self.event_count

    def events(self) -> list[tuple[bytes, int]]:
        """Return the text and the byte offset of each event."""
        texts = _raw_texts(self.text)
        if self.offsets is not None:
            return list(zip(texts, self.offsets, strict=True))
        return list(_with_offsets(bytes(self.text), self.byte_offset, texts))


@dataclass(frozen=True, slots=True)
class EventColumns:
    """A run of whole events that have been read already.

    Attributes:
        array: an Arrow array of them, to be taken once; its columns are those of native/columns.h.
        first_event_id: position in the file of the first event.
        event_count: how many events the array holds.
    """

    array: CapsuleType
    first_event_id: int
    event_count: int


@dataclass(slots=True)
class _Salvage:
    """What was saved of a block that did not decode."""

    events: list[tuple[bytes, int]]
    consumed: int
    array_ended: bool
    stuck: bool


class TraceText:
    """Reads one trace from a stream of plain bytes.

    Iterate over :meth:`blocks` to the end; the other attributes are complete only then.

    Args:
        stream: the plain bytes.
        block_bytes: text per block, at least.
        is_compiled: let the compiled parser read what it can, where there is one.

    Attributes:
        rejected: what could not be read, in file order.
        repaired: what was read after mending, in file order.
        event_count: events in all blocks so far.
        truncation: why the trace counts as cut off, or None.
        found_array: whether there was an array of events at all.
    """

    def __init__(
        self, stream: ByteStream, block_bytes: int = BLOCK_BYTES, *, is_compiled: bool = True
    ) -> None:
        self._stream = stream
        self._parse_events = parse_events if is_compiled else None
        self._chunks = stream.__iter__()
        self._block_bytes = block_bytes
        # The text without the arrays of events: its pieces, and where each began.
        self._outside: list[bytes] = []
        self._outside_offsets: list[int] = []
        self._nesting = Nesting()
        self._before_end = self._nesting
        # Of the text outside that is in the buffer: how far it was followed, and whether an event
        # in it was found to be no stray one.
        self._followed = 0
        self._is_stray_settled = False
        self._ahead: deque[memoryview] = deque()
        self._is_stream_ended = False
        self._window_bytes = block_bytes
        self._effort_bytes = 0
        self.rejected: list[Rejected] = []
        self.repaired: list[Repaired] = []
        self.event_count = 0
        self.truncation: str | None = None
        self.found_array = False

    # -- reading ---------------------------------------------------------------------------

    def blocks(self) -> Generator[Block | EventColumns, None, None]:
        """Yield the events block by block: as columns what the compiled parser reads, else as text.

        Raises:
            TraceError: the file cannot be read.
        """
        try:
            yield from _gathered(self._blocks(), self._block_bytes, self._parse_events)
        finally:
            self._chunks.close()

    def _blocks(self) -> Iterator[Block | EventColumns]:
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
                        self._set_outside(base, bytes(buffer))
                        break
                    wanted = 2 * len(buffer)
                    continue
                if is_stray:
                    # The bracket was no end: it goes to what could not be read.
                    self._reject(base - 1, "stray closing bracket", b"]" + buffer[:start])
                    self._outside.pop()
                    self._outside_offsets.pop()
                    self._nesting = self._before_end
                else:
                    self._nesting.feed(buffer[self._followed : start])
                    self._set_outside(base, bytes(buffer[:start]))
                self._put_back(buffer, start)
                base, buffer = base + start - 1, bytearray(b"[")
                inside = self.found_array = True
                wanted = self._window_bytes
                continue
            block, consumed, array_ended = self._take(buffer, base)
            if block is not None and block.event_count:
                self.event_count += block.event_count
                yield block
            if array_ended:
                self._put_back(buffer, consumed)
                base, buffer = base + consumed, bytearray()
                inside = False
                self._set_outside(base - 1, b"]")
                self._before_end = self._nesting.copy()
                self._nesting.feed(b"]")
                self._followed, self._is_stray_settled = 0, False
                self._window_bytes = min(self._block_bytes, max(_SMALL_WINDOW_BYTES, 4 * consumed))
                wanted = min(_HEAD_BYTES, self._window_bytes)
            elif self._exhausted:
                self.truncation = self.truncation or "the file ends inside the array of events"
                self._set_outside(base + len(buffer), b"]")
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
                self.rejected.append(Rejected(base + len(buffer), self._stream.problem, ""))

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

    def _set_outside(self, byte_offset: int, text: bytes) -> None:
        self._outside.append(text)
        self._outside_offsets.append(byte_offset)

    def _events_start(self, buffer: bytearray, base: int) -> tuple[int | None, bool]:
        """Return where events begin outside of an array, and whether they are stray ones.

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
        starts = _EVENT_START.finditer(buffer, self._followed, stop)
        places = [match.start(1) for match in islice(starts, 9)]
        for start, following in pairwise([*places, stop]):
            if _PHASE_MEMBER.search(buffer, start, following):
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

    def _take(self, buffer: bytearray, base: int) -> tuple[Block | EventColumns | None, int, bool]:
        """Cut a block off the front of the buffer.

        Returns the block, how many bytes of the buffer are used up, and whether the array ended.
        """
        # What short arrays hold stays text for now: thousands of them make one block in the end.
        is_short = self._window_bytes < self._block_bytes
        parse = None if is_short else self._parse_events
        parsed = parse and parse(buffer, self.event_count)
        if parsed is not None:
            array, event_count, used, is_ended = parsed
            # At the end of a file without the bracket it takes more to say what the rest is.
            if is_ended or not self._exhausted:
                return EventColumns(array, self.event_count, event_count), used, is_ended
        is_ascii = buffer.isascii()
        for cut in self._cuts(buffer):
            # The comma at the cut becomes the bracket that closes the array: nothing is copied.
            cut_off = buffer[cut : cut + 1]
            buffer[cut : cut + 1] = b"]"
            text = memoryview(buffer)[: cut + 1]
            end, count = _checked(text)
            if end is None:
                text.release()
                buffer[cut : cut + 1] = cut_off
                continue
            array_ended = end < cut
            if array_ended:
                # What follows the array belongs to the metadata, the byte at the cut included.
                whole, text = text, memoryview(bytes(text[: end + 1]))
                whole.release()
                buffer[cut : cut + 1] = cut_off
                count = _typed_count(text)
            if count is None or not (is_ascii or _is_utf8(text)):
                block = self._rebuild(
                    list(_with_offsets(bytes(text), base, _raw_texts(text))), base
                )
            else:
                block = Block(text, self.event_count, count, base)
            return block, end + 1, array_ended
        # Our bracket in front stands for the byte before: the text of the events begins behind it.
        salvage = self._salvage(bytes(memoryview(buffer)[1:]), base + 1)
        if salvage.stuck:
            return None, 0, False
        block = self._rebuild(salvage.events, base + 1)
        return block, salvage.consumed + 1, salvage.array_ended

    def _cuts(self, buffer: bytearray) -> Iterator[int]:
        """Yield places to cut, best first: the whole rest at the end of the file, else commas."""
        if self._exhausted:
            end = len(buffer)
            while end > 1 and buffer[end - 1] in b" \t\r\n,":
                end -= 1
            yield end
            return
        end = len(buffer)
        tried = 0
        window = 64 << 10
        while end > 0 and tried < 3:
            start = max(0, end - window)
            # Overlap, so that a comma between two objects is not missed at the seam.
            stop = min(len(buffer), end + 4096)
            found = [match.start(1) for match in _BETWEEN_OBJECTS.finditer(buffer, start, stop)]
            for cut in reversed(found):
                if cut < end:
                    yield cut
                    tried += 1
                    if tried == 3:
                        return
            end, window = start, window * 8

    def _rebuild(self, events: list[tuple[bytes, int]], base: int) -> Block:
        """Make a block of single events: mend encodings, set odd members and non-events apart."""
        texts: list[bytes] = []
        offsets: list[int] = []
        for text, offset in events:
            event_id = self.event_count + len(texts)
            if not text.startswith(b"{"):
                self._reject(offset, "an event that is no object", text)
                continue
            if not _is_utf8(text):
                mended = repair_object(text)
                if mended is None:
                    self._reject(offset, "invalid UTF-8", text)
                    continue
                text = mended[0]
                self.repaired.append(Repaired(event_id, offset, mended[1]))
            try:
                text = _with_extra_apart(text)
            except RecursionError:
                self._reject(offset, "nested too deeply", text)
                continue
            texts.append(text)
            offsets.append(offset)
        joined = b"[" + b",\n".join(texts) + b"]"
        return Block(joined, self.event_count, len(texts), base, tuple(offsets))

    # -- a block with something malformed in it ------------------------------------------------

    def _salvage(self, buffer: bytes, base: int) -> _Salvage:
        """Read a block event by event, keeping all that is well-formed or can be mended."""
        events: list[tuple[bytes, int]] = []
        at = 0
        window = SALVAGE_WINDOW_BYTES
        while True:
            at = _skip(buffer, at)
            if at >= len(buffer):
                return _Salvage(events, at, False, False)
            if not self._has_effort_left():
                at, state = self._salvage_plainly(buffer, at, base, events)
            else:
                good, at, state = self._salvage_run(buffer, at, base, window)
                events.extend(good)
            if state == "ended":
                return _Salvage(events, at, True, False)
            if state == "more":
                window = min(4 * window, SALVAGE_WINDOW_BYTES)
                continue
            window = DAMAGE_WINDOW_BYTES
            # The text at `at` is not an event as it stands.
            if buffer[at : at + 1] == b"]" and not self._more_events_follow(buffer, at):
                return _Salvage(events, at + 1, True, False)
            behind = None if state == "open" else self._damaged(buffer, at, base, events)
            if behind is None:
                if len(buffer) - at <= MAX_EVENT_BYTES:
                    # The rest may be an event whose end is not here yet.
                    return _Salvage(events, at, False, stuck=at == 0)
                self._reject(base + at, "no end of this event found", buffer[at:])
                return _Salvage(events, len(buffer), False, False)
            at = behind

    def _has_effort_left(self) -> bool:
        """Whether whole events may still be looked for wherever one may begin.

        That is quick in what programs write, even if much of it is damaged. A text that is made to
        take long is read in the plain way instead.
        """
        allowed_bytes = _FREE_EFFORT_BYTES + _EFFORT_PER_BYTE * self._stream.text_bytes
        return self._effort_bytes < allowed_bytes

    def _salvage_run(
        self, buffer: bytes, at: int, base: int, window: int
    ) -> tuple[list[tuple[bytes, int]], int, str]:
        """Read as many well-formed events as possible from ``at`` on, within ``window`` bytes.

        Returns the events, where reading stopped, and ``more`` (go on there), ``ended`` (behind the
        array) or ``damaged``.
        """
        stop = min(len(buffer), at + window)
        if stop < len(buffer) or not self._exhausted:
            cut = None
            for match in _BETWEEN_OBJECTS.finditer(buffer, at, min(len(buffer), stop + 4096)):
                cut = match.start(1)
            stop = cut if cut is not None else stop
        text = b"[" + buffer[at:stop].rstrip(b" \t\r\n,") + b"]"
        try:
            return _shifted(text, base + at - 1), stop, "more"
        except RecursionError:
            pass
        except msgspec.DecodeError as error:
            end = _array_end(text, error)
            if end is not None and not self._more_events_follow(buffer, at + end - 1):
                return _shifted(text[: end + 1], base + at - 1), at + end, "ended"
        # What comes before the event in which the parser stumbled is fine.
        good, end = _leading_values(text[1:-1])
        self._effort_bytes += end + _ATTEMPT_BYTES
        return [(piece, base + at + offset) for piece, offset in good], at + end, "damaged"

    def _salvage_plainly(
        self, buffer: bytes, at: int, base: int, events: list[tuple[bytes, int]]
    ) -> tuple[int, str]:
        """Read what stands between two places where events begin, each place looked at once.

        Returns where the next event begins, and ``more``, ``ended`` (the array), or ``open``: the
        end of this one is not in the buffer.
        """
        if buffer[at : at + 1] == b"]" and not self._more_events_follow(buffer, at):
            return at + 1, "ended"
        starts = (match.start(1) for match in _EVENT_START.finditer(buffer, at + 1))
        end = next(starts, len(buffer))
        while end < len(buffer):
            following = next(starts, len(buffer))
            if _PHASE_MEMBER.search(buffer, end, following):
                break
            end = following
        if end == len(buffer) and not self._exhausted:
            return at, "open"
        piece = buffer[at:end].rstrip(b" \t\r\n,")
        state = "more"
        if not is_object(piece):
            for match in islice(_OBJECT_ARRAY_END.finditer(piece), 3):
                if is_object(piece[: match.start(1)]):
                    piece, end, state = piece[: match.start(1)], at + match.end(1), "ended"
                    break
        if is_object(piece):
            events.append((piece, base + at))
        elif (mended := repair_object(piece)) is not None:
            self.repaired.append(Repaired(self.event_count + len(events), base + at, mended[1]))
            events.append((mended[0], base + at))
        else:
            self._reject(base + at, _why(piece, is_cut=False), piece)
        return end, state

    def _damaged(
        self, buffer: bytes, at: int, base: int, events: list[tuple[bytes, int]]
    ) -> int | None:
        """Mend or set aside the damaged text at ``at``; return where the next event begins.

        None: its end is not in the buffer.
        """
        whole = self._first_object(buffer, at)
        if whole is not None:
            # Well-formed after all: what stands behind it (no comma, junk) confused the parser.
            events.append((whole, base + at))
            return at + len(whole)
        ends = self._next_events(buffer, at)
        if not ends and not self._exhausted:
            return None
        first_end = ends[0] if ends else self._last_event_end(buffer, at)
        # Between the event and the next one there may be more that is none.
        inner = [match.end(1) for match in _OBJECT_END.finditer(buffer, at, first_end)]
        for end in [*(ends or [first_end]), *inner[-3:]]:
            mended = repair_object(buffer[at:end].rstrip(b" \t\r\n,"))
            if mended is not None:
                self.repaired.append(Repaired(self.event_count + len(events), base + at, mended[1]))
                events.append((mended[0], base + at))
                return end
        piece = buffer[at:first_end]
        is_cut = not ends and first_end == len(buffer)
        if is_cut:
            self.truncation = "the file ends inside an event"
        piece = piece.rstrip(b" \t\r\n,") or piece
        self._reject(base + at, _why(piece, is_cut=is_cut), piece)
        return first_end

    def _next_events(self, buffer: bytes, at: int) -> list[int]:
        """Return where the next one or two events behind the damaged text at ``at`` begin.

        An object without a phase, nested in the damaged event, is no place to go on from. A second
        one is of interest only where the first is no whole event: it may be part of the damage.
        """
        ends: list[int] = []
        starts = (match.start(1) for match in _EVENT_START.finditer(buffer, at + 1))
        start = next(starts, None)
        while start is not None and len(ends) < 2 and start - at <= MAX_EVENT_BYTES:
            following = next(starts, None)
            whole = self._first_object(buffer, start) if self._has_effort_left() else None
            if whole is not None and "ph" in _members.decode(whole):
                return [*ends, start]
            if _PHASE_MEMBER.search(buffer, start, following or len(buffer)):
                ends.append(start)
            start = following
        return ends

    def _first_object(self, buffer: bytes, at: int) -> bytes | None:
        """Return the well-formed JSON object that begins at ``at``, if one does."""
        size = DAMAGE_WINDOW_BYTES
        while True:
            window = buffer[at : at + size].decode("latin-1")  # One character a byte.
            try:
                value, end = _strict_json.raw_decode(window)
            except json.JSONDecodeError as error:
                self._effort_bytes += error.pos + _ATTEMPT_BYTES
                # Only a window that ended too soon is worth a longer one.
                is_short = error.pos >= len(window) - 16 or error.msg.startswith("Unterminated")
                if is_short and len(window) == size < MAX_EVENT_BYTES:
                    size *= 8
                    continue
                return None
            except (ValueError, RecursionError):
                self._effort_bytes += len(window) + _ATTEMPT_BYTES
                return None
            self._effort_bytes += end + _ATTEMPT_BYTES
            found = buffer[at : at + end]
            return found if isinstance(value, dict) and is_object(found) else None

    def _last_event_end(self, buffer: bytes, at: int) -> int:
        """Find the end of the last, damaged event of a file: before ``]``, or the file's end."""
        for match in re.finditer(rb'\}\s*(\])\s*(?:$|\}\s*$|,\s*")', buffer[at:]):
            return at + match.start(1)
        return len(buffer)

    @staticmethod
    def _more_events_follow(buffer: bytes, at: int) -> bool:
        """Tell a ``]`` that a damaged event left over from the one that closes the array."""
        following = re.compile(rb"\]\s*\}?\s*\}\s*,\s*\{").match(buffer, at)
        return following is not None and _PHASE_MEMBER.search(buffer, at, at + 65536) is not None

    def _reject(self, byte_offset: int, reason: str, text: bytes) -> None:
        shown = text[:REJECTED_TEXT_BYTES].decode("utf-8", "replace")
        self.rejected.append(Rejected(byte_offset, reason, shown))

    # -- around the events ---------------------------------------------------------------------

    def metadata(self) -> dict[str, object]:
        """Return the members of the trace object other than its events.

        Unreadable metadata and text behind the trace are added to :attr:`rejected`.
        """
        text = b"".join(self._outside)
        stripped = text.strip()
        if not stripped or stripped.startswith(b"["):
            self._reject_trailing(text.lstrip()[2:] if stripped.startswith(b"[]") else b"")
            return {}
        # NaN and Infinity are no JSON: they become null.
        decoder = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
        decoded = text.decode("utf-8", "surrogateescape")
        start = len(decoded) - len(decoded.lstrip())
        is_cut = _is_cut_off(stripped)
        if is_cut:
            self.truncation = self.truncation or "the file ends before its closing brace"
        for candidate in (decoded, _closed(decoded)) if is_cut else (decoded,):
            try:
                value, end = decoder.raw_decode(candidate, start)
            except (ValueError, RecursionError):
                continue
            if not is_cut:
                self._reject_trailing(candidate[end:].encode("utf-8", "surrogateescape"))
            return self._without_events(value)
        mended = repair_object(stripped)
        if mended is not None:
            self.repaired.append(Repaired(-1, 0, f"metadata: {mended[1]}"))
            return self._without_events(json.loads(mended[0]))
        self._reject(0, "the metadata around the events is not valid JSON", stripped)
        return {}

    @staticmethod
    def _without_events(value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            return {}
        return {key: member for key, member in value.items() if key != "traceEvents"}

    def _reject_trailing(self, rest: bytes) -> None:
        shown = rest.strip()
        if shown:
            # Where that is in the file: the text around the events is in pieces.
            behind = sum(map(len, self._outside)) - len(rest) + rest.index(shown)
            offset = behind
            for piece, piece_offset in zip(self._outside, self._outside_offsets, strict=True):
                if behind < len(piece):
                    offset = piece_offset + behind
                    break
                behind -= len(piece)
            self._reject(offset, "text behind the end of the trace", shown)


def _is_cut_off(text: bytes) -> bool:
    """Tell whether ``text`` is JSON as far as it goes, but has no end."""
    try:
        msgspec.json.decode(text, type=Raw)
    except RecursionError:
        return False
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    return False


def _closed(text: str) -> str:
    """Close an object that is cut off behind the last of its members that is whole."""
    depth = 0
    end = None
    for token in _JSON_TOKEN_OR_COMMA.finditer(text):
        match token.group():
            case "{" | "[":
                depth += 1
            case "}" | "]":
                depth -= 1
                end = token.end() if depth == 1 else end
            case ",":
                end = token.start() if depth == 1 else end
    return text if end is None else text[:end] + "}"


def _gathered(
    blocks: Iterator[Block | EventColumns], block_bytes: int, parse: ParseEvents | None
) -> Iterator[Block | EventColumns]:
    """Make one block of many small ones that follow each other: each costs a statement of SQL."""
    small: list[Block] = []
    small_bytes = 0
    for block in blocks:
        is_small = isinstance(block, Block) and 8 * len(block.text) < block_bytes
        if small and (not is_small or small_bytes >= block_bytes):
            yield _joined(small, parse)
            small, small_bytes = [], 0
        if isinstance(block, Block) and is_small:
            small.append(block)
            small_bytes += len(block.text)
        else:
            yield block
    if small:
        yield _joined(small, parse)


def _joined(blocks: list[Block], parse: ParseEvents | None) -> Block | EventColumns:
    if len(blocks) == 1:
        return blocks[0]
    events = [event for block in blocks for event in block.events()]
    text = b"[" + b",\n".join(text for text, _ in events) + b"]"
    first = blocks[0]
    parsed = parse and parse(bytearray(text), first.first_event_id)
    if parsed is not None:
        array, event_count, _, is_ended = parsed
        if is_ended and event_count == len(events):
            return EventColumns(array, first.first_event_id, event_count)
    offsets = tuple(offset for _, offset in events)
    return Block(text, first.first_event_id, len(events), first.byte_offset, offsets)


def _array_end(text: bytes, error: msgspec.DecodeError) -> int | None:
    """Return the index of the ``]`` that closes the array before the end of the text, if one does.

    The parser says "trailing characters" exactly when the array is complete and more follows.
    """
    message = str(error)
    position = _ERROR_BYTE.search(message)
    if "trailing characters" not in message or position is None:
        return None
    return text.rindex(b"]", 0, int(position.group(1)) - 1)


def _is_utf8(text: bytes | memoryview) -> bool:
    try:
        str(text, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _checked(text: memoryview) -> tuple[int | None, int | None]:
    """Find the bracket that closes the array, and count the events.

    Returns:
        The index of the bracket, None if the text is malformed before it; the array may close
        before the text ends, then the rest is not looked at. And the number of events, None where
        that is not known yet or an event has a member without a column.
    """
    try:
        return len(text) - 1, len(_typed_events.decode(text))
    except RecursionError:
        return None, None
    except (msgspec.ValidationError, UnicodeDecodeError):
        # An event with members that have no column, or no object: still well-formed?
        try:
            _raw_events.decode(text)
        except RecursionError:
            return None, None
        except msgspec.DecodeError as error:
            return _array_end(bytes(text), error), None
        return len(text) - 1, None
    except msgspec.DecodeError as error:
        return _array_end(bytes(text), error), None


def _typed_count(text: bytes | memoryview) -> int | None:
    """Return how many events an array holds; None if one has a member without a column."""
    try:
        return len(_typed_events.decode(text))
    except (msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return None


def _raw_texts(text: bytes | memoryview) -> list[bytes]:
    return [bytes(raw) for raw in _raw_events.decode(text)]


def _with_offsets(text: bytes, base: int, pieces: list[bytes]) -> Iterator[tuple[bytes, int]]:
    at = 0
    for piece in pieces:
        at = text.index(piece, at)
        yield piece, base + at
        at += len(piece)


def _shifted(text: bytes, base: int) -> list[tuple[bytes, int]]:
    """Decode an array of raw values into (text, byte offset) pairs.

    Raises:
        msgspec.DecodeError: the array is malformed.
    """
    return list(_with_offsets(text, base, _raw_texts(text)))


def _with_extra_apart(text: bytes) -> bytes:
    """Move the members of an event that have no column under :data:`EXTRA_KEY`."""
    members = _members.decode(text)
    extra = {key: value for key, value in members.items() if key not in EVENT_MEMBERS}
    if not extra:
        return text
    known = {key: value for key, value in members.items() if key in EVENT_MEMBERS}
    return msgspec.json.encode({**known, EXTRA_KEY: extra})


def _leading_values(text: bytes) -> tuple[list[tuple[bytes, int]], int]:
    """Return the well-formed JSON values, commas between, up to where one more event begins.

    Each with its offset; and where that event begins, which is not well-formed, or 0.
    """
    found: list[tuple[bytes, int]] = []
    shown = text.decode("latin-1")  # One character a byte: lengths agree.
    at = count = behind = 0
    while at < len(text):
        try:
            _, end = _strict_json.raw_decode(shown, at)
            _raw.decode(text[at:end])
        except (ValueError, RecursionError):
            break
        comma = _COMMA.match(text, end)
        found.append((text[at:end], at))
        if comma is None:
            break
        at = comma.end()
        if _EVENT_HEAD.match(text, at):
            count, behind = len(found), at
    return found[:count], behind


def _skip(buffer: bytes, at: int) -> int:
    match = _LEADING_SEPARATORS.match(buffer, at)
    return match.end() if match else at


def _why(piece: bytes, *, is_cut: bool) -> str:
    """Say in a few words why a piece of text, perhaps the cut-off end of a file, is no event."""
    if len(piece) > MAX_EVENT_BYTES:
        return "no end of this event found"
    try:
        _members.decode(piece)
    except RecursionError:
        return "nested too deeply"
    except UnicodeDecodeError:
        return "invalid UTF-8"
    except msgspec.ValidationError:
        return "an event that is no object"
    except msgspec.DecodeError as error:
        message = str(error)
        position = _ERROR_BYTE.search(message)
        # A number that ends in its point is malformed only because the rest is missing.
        is_at_end = position is not None and int(position.group(1)) >= len(piece) - 2
        if "truncated" in message or (is_cut and is_at_end):
            return "cut off"
        return "malformed JSON: " + message.removeprefix("JSON is malformed: ")
    return "malformed JSON"


def unreadable(path: object, stream: ByteStream, text: TraceText) -> TraceError:
    """Return the error for a file in which no event could be read."""
    if stream.text_bytes == 0:
        why = "the file is empty" if stream.problem is None else stream.problem
        return TraceError(f"{path}: {why}", hint="collect the trace again, or copy it again")
    if not text.found_array and stream.problem is not None:
        return TraceError(
            f"{path}: {stream.problem}, before the first event",
            hint="collect the trace again, or copy it again",
        )
    if not text.found_array:
        return TraceError(
            f"{path}: not a Chrome trace: it has no array of trace events",
            hint='a trace is {"traceEvents": [...]} or [...], as torch.profiler exports it',
        )
    if text.rejected:
        first = text.rejected[0]
        return TraceError(
            f"{path}: no readable event; the first one, at byte {first.byte_offset}, is unreadable:"
            f" {first.reason}",
            hint="collect the trace again, or copy it again",
        )
    return TraceError(
        f"{path}: the trace holds no event", hint="was the profiler active for at least one step?"
    )
