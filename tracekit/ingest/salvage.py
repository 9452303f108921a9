"""Reader of malformed event arrays: returns all events that are complete or can be repaired.

It tries each position where an event may begin. Other text is recorded with its offset and the
reason for rejection.
"""

from __future__ import annotations

import json
import re
from itertools import islice

import msgspec
from msgspec import Struct

from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.event_collector import EventCollector
from tracekit.ingest.json_values import Raw, array_end, error_byte, items
from tracekit.ingest.repair import is_object, repair_object

MAX_EVENT_BYTES = 64 << 20
"""Maximum length of an event or header, to limit memory for hostile files."""

FINE_BYTES = 256 << 10
"""Length of undamaged text after which the normal parser resumes."""

WINDOW_BYTES = 256 << 10
DAMAGE_WINDOW_BYTES = 4 << 10
"""Bytes of text per read: normally, and (because damage is often clustered) after a damaged event.
"""

_FREE_EFFORT_BYTES = 4 << 20
_EFFORT_PER_BYTE = 16
"""Limit on the text decoded in search of complete events, in bytes: fixed, plus per byte of the
trace."""

_ATTEMPT_BYTES = 64
"""Fixed cost of one decoding attempt, in bytes of text."""

_raw = msgspec.json.Decoder(Raw)
_members = msgspec.json.Decoder(dict[str, Raw])
_strict_json = json.JSONDecoder()

_COMMA = re.compile(rb"\s*,[\s,]*")
_OBJECT_ARRAY_END = re.compile(rb"\}\s*(\])")
_OBJECT_END = re.compile(rb"(\})\s*,")
BETWEEN_OBJECTS = re.compile(rb"\}\s*(,)\s*\{\s*\"")
# Start of a possible event: any object whose first key is `ph`, or an object with another usual
# first key after a comma or at the start of the text.
EVENT_START = re.compile(
    rb'(?:(?:^|,)\s*(?=\{\s*"(?:cat|name|pid|tid|ts|dur|id|s|bp|args)"\s*:)|(?=\{\s*"ph"\s*:))(\{)',
    re.ASCII,
)
_EVENT_HEAD = re.compile(rb'\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|s|bp|args)"\s*:', re.ASCII)
PHASE_MEMBER = re.compile(rb'"ph"\s*:\s*"')
_LEADING_SEPARATORS = re.compile(rb"[\s,]*")


class Salvaged(Struct, frozen=True):
    """Result of reading malformed text.

    `consumed` is the number of bytes read, 0 if the end of the first event is not in the text.
    `is_ended` is True if the array ended there. `truncation` is the reason if the trace is
    truncated.
    """

    consumed: int
    is_ended: bool = False
    truncation: str | None = None


class Salvager:
    def __init__(self, stream: ByteStream, collector: EventCollector) -> None:
        self._stream = stream
        self._collector = collector
        self._faults = collector.faults
        self._effort_bytes = 0
        self._is_last = False

    def read(self, buffer: bytes, base: int, *, is_last: bool) -> Salvaged:
        """Read events sequentially up to a long section of undamaged text.

        `buffer` begins with a damaged event, at offset `base` of the plain text of the file.
        """
        self._is_last = is_last
        at = 0
        window = WINDOW_BYTES
        damaged_at = 0
        while True:
            at = _skip(buffer, at)
            if at >= len(buffer):
                return Salvaged(at)
            if at - damaged_at >= FINE_BYTES:
                return Salvaged(at)
            if not self._is_within_effort():
                at, state = self._read_plainly(buffer, at, base)
            else:
                at, state = self._read_run(buffer, at, base, window)
            if state == "ended":
                return Salvaged(at, is_ended=True)
            if state == "more":
                window = min(4 * window, WINDOW_BYTES)
                continue
            window = DAMAGE_WINDOW_BYTES
            # The text at `at` is not a well-formed event.
            if buffer[at : at + 1] == b"]" and not self._more_events_follow(buffer, at):
                return Salvaged(at + 1, is_ended=True)
            behind, truncation = (
                (None, None) if state == "open" else self._read_damaged(buffer, at, base)
            )
            if truncation is not None:
                return Salvaged(len(buffer), truncation=truncation)
            if behind is None:
                if len(buffer) - at <= MAX_EVENT_BYTES:
                    # The end of this event may follow in the next buffer.
                    return Salvaged(at)
                self._faults.reject(base + at, "the end of this event is missing", buffer[at:])
                return Salvaged(len(buffer))
            at = damaged_at = behind

    def _is_within_effort(self) -> bool:
        """Return whether the effort limit allows trying each position.

        The limit suffices for files written by profilers, even badly damaged ones. Text crafted to
        be slow to parse is then read linearly.
        """
        allowed_bytes = _FREE_EFFORT_BYTES + _EFFORT_PER_BYTE * self._stream.text_bytes
        return self._effort_bytes < allowed_bytes

    def _read_run(self, buffer: bytes, at: int, base: int, window: int) -> tuple[int, str]:
        """Read consecutive well-formed events from ``at``, within ``window`` bytes.

        Return the index at which reading stopped, and ``more`` (continue there), ``ended`` (the
        array ended there), or ``damaged``.
        """
        stop = min(len(buffer), at + window)
        if stop < len(buffer) or not self._is_last:
            cut = None
            for match in BETWEEN_OBJECTS.finditer(buffer, at, min(len(buffer), stop + 4096)):
                cut = match.start(1)
            stop = cut if cut is not None else stop
        text = b"[" + buffer[at:stop].rstrip(b" \t\r\n,") + b"]"
        try:
            self._collector.read_events(list(items(text, base + at - 1)))
            return stop, "more"
        except RecursionError:
            pass
        except msgspec.DecodeError as error:
            end = array_end(text, error)
            if end is not None and not self._more_events_follow(buffer, at + end - 1):
                self._collector.read_events(list(items(text[: end + 1], base + at - 1)))
                return at + end, "ended"
        # The events before the one with the error are well-formed.
        good, end = _leading_values(text[1:-1])
        self._effort_bytes += end + _ATTEMPT_BYTES
        self._collector.read_events((piece, base + at + offset) for piece, offset in good)
        return at + end, "damaged"

    def _read_plainly(self, buffer: bytes, at: int, base: int) -> tuple[int, str]:
        """Read the text up to the next position where an event may begin, without retries.

        Return the index of the next event, and ``more`` (continue there), ``ended`` (the array
        ended there), or ``open`` (the end of this event is not in the buffer).
        """
        if buffer[at : at + 1] == b"]" and not self._more_events_follow(buffer, at):
            return at + 1, "ended"
        starts = (match.start(1) for match in EVENT_START.finditer(buffer, at + 1))
        end = next(starts, len(buffer))
        while end < len(buffer):
            following = next(starts, len(buffer))
            if PHASE_MEMBER.search(buffer, end, following):
                break
            end = following
        if end == len(buffer) and not self._is_last:
            return at, "open"
        piece = buffer[at:end].rstrip(b" \t\r\n,")
        state = "more"
        if not is_object(piece):
            for match in islice(_OBJECT_ARRAY_END.finditer(piece), 3):
                if is_object(piece[: match.start(1)]):
                    piece, end, state = piece[: match.start(1)], at + match.end(1), "ended"
                    break
        if is_object(piece):
            self._collector.read_events([(piece, base + at)])
        elif (mended := repair_object(piece)) is not None:
            self._read_repaired(mended, base + at)
        else:
            self._faults.reject(base + at, _rejection_reason(piece, is_cut=False), piece)
        return end, state

    def _read_repaired(self, mended: tuple[bytes, str], offset: int) -> None:
        text, reason = mended
        self._faults.repair(self._collector.event_count, offset, reason)
        self._collector.read_events([(text, offset)])

    def _read_damaged(self, buffer: bytes, at: int, base: int) -> tuple[int | None, str | None]:
        """Repair or reject the damaged text at ``at``.

        Return the index of the next event, or None if the end of this one is not in the buffer.
        Also return the reason for a truncated trace, else None.
        """
        whole = self._first_object(buffer, at)
        if whole is not None:
            # The event is well-formed, but the text after it is not (missing comma or junk).
            self._collector.read_events([(whole, base + at)])
            return at + len(whole), None
        ends = self._next_events(buffer, at)
        if not ends and not self._is_last:
            return None, None
        first_end = ends[0] if ends else self._last_event_end(buffer, at)
        # There may be other text between this event and the next one.
        inner = [match.end(1) for match in _OBJECT_END.finditer(buffer, at, first_end)]
        for end in [*(ends or [first_end]), *inner[-3:]]:
            mended = repair_object(buffer[at:end].rstrip(b" \t\r\n,"))
            if mended is not None:
                self._read_repaired(mended, base + at)
                return end, None
        piece = buffer[at:first_end]
        is_cut = not ends and first_end == len(buffer)
        piece = piece.rstrip(b" \t\r\n,") or piece
        self._faults.reject(base + at, _rejection_reason(piece, is_cut=is_cut), piece)
        return first_end, "the file ends inside an event" if is_cut else None

    def _next_events(self, buffer: bytes, at: int) -> list[int]:
        """Return the start positions of the next one or two events after the damage at ``at``.

        Objects without `ph` may be nested in the damaged event and are ignored. The second event is
        returned only if the first is incomplete, and so may be part of the damage.
        """
        ends: list[int] = []
        starts = (match.start(1) for match in EVENT_START.finditer(buffer, at + 1))
        start = next(starts, None)
        while start is not None and len(ends) < 2 and start - at <= MAX_EVENT_BYTES:
            following = next(starts, None)
            whole = self._first_object(buffer, start) if self._is_within_effort() else None
            if whole is not None and "ph" in _members.decode(whole):
                return [*ends, start]
            if PHASE_MEMBER.search(buffer, start, following or len(buffer)):
                ends.append(start)
            start = following
        return ends

    def _first_object(self, buffer: bytes, at: int) -> bytes | None:
        """Return the well-formed JSON object at ``at``, or None."""
        size = DAMAGE_WINDOW_BYTES
        while True:
            window = buffer[at : at + size].decode("latin-1")  # One character per byte.
            try:
                value, end = _strict_json.raw_decode(window)
            except json.JSONDecodeError as error:
                self._effort_bytes += error.pos + _ATTEMPT_BYTES
                # Retry with a longer window only if this one ended too soon.
                is_short = error.pos >= len(window) - 16 or error.msg.startswith("Unterminated")
                if is_short and len(window) == size < MAX_EVENT_BYTES:
                    size *= 8
                    continue
                return None
            except (ValueError, RecursionError):
                self._effort_bytes += len(window) + _ATTEMPT_BYTES
                return None
            self._effort_bytes += end + _ATTEMPT_BYTES
            result = buffer[at : at + end]
            return result if isinstance(value, dict) and is_object(result) else None

    def _last_event_end(self, buffer: bytes, at: int) -> int:
        """Return the end of the damaged last event of a file: before ``]``, or the file end."""
        for match in re.finditer(rb'\}\s*(\])\s*(?:$|\}\s*$|,\s*")', buffer[at:]):
            return at + match.start(1)
        return len(buffer)

    @staticmethod
    def _more_events_follow(buffer: bytes, at: int) -> bool:
        """Return whether events follow a ``]``, which then does not close the array."""
        following = re.compile(rb"\]\s*\}?\s*\}\s*,\s*\{").match(buffer, at)
        return following is not None and PHASE_MEMBER.search(buffer, at, at + 65536) is not None


def _leading_values(text: bytes) -> tuple[list[tuple[bytes, int]], int]:
    """Return the leading well-formed JSON values, separated by commas, with their offsets.

    Also return the offset of the malformed event that follows, or 0.
    """
    results: list[tuple[bytes, int]] = []
    shown = text.decode("latin-1")  # One character per byte, so that offsets agree.
    at = count = behind = 0
    while at < len(text):
        try:
            _, end = _strict_json.raw_decode(shown, at)
            _raw.decode(text[at:end])
        except (ValueError, RecursionError):
            break
        comma = _COMMA.match(text, end)
        results.append((text[at:end], at))
        if comma is None:
            break
        at = comma.end()
        if _EVENT_HEAD.match(text, at):
            count, behind = len(results), at
    return results[:count], behind


def _skip(buffer: bytes, at: int) -> int:
    match = _LEADING_SEPARATORS.match(buffer, at)
    return match.end() if match else at


def _rejection_reason(piece: bytes, *, is_cut: bool) -> str:
    """Return why a text is not an event. `is_cut` means that a truncated file ends with it."""
    if len(piece) > MAX_EVENT_BYTES:
        return "the end of this event is missing"
    try:
        _members.decode(piece)
    except RecursionError:
        return "nested too deeply"
    except UnicodeDecodeError:
        return "invalid UTF-8"
    except msgspec.ValidationError:
        return "an event that is not an object"
    except msgspec.DecodeError as error:
        message = str(error)
        position = error_byte(error)
        # A number that ends with its decimal point is cut off.
        is_at_end = position is not None and position >= len(piece) - 2
        if "truncated" in message or (is_cut and is_at_end):
            return "cut off"
        return "malformed JSON: " + message.removeprefix("malformed JSON: ")
    return "malformed JSON"
