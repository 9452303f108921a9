"""Writes Perfetto's trace format.

The format: protos/perfetto/trace of Perfetto, messages TracePacket, TrackDescriptor, TrackEvent,
DebugAnnotation, and InternedData; the numbers below are their field numbers.

Times of a slice are exact in ns. A slice has one packet for its begin and one for its end. Packets
with the same time are in display order, which keeps slices of zero length in place. Names are
interned: written once, and then referenced by number.

The slices of a Perfetto track are nested or sequential. Slices that partially overlap, such as
concurrent kernels of one stream, are on additional lanes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any, NamedTuple

from tracekit.wire import (
    LOW,
    TWO_MORE,
    bytes_field,
    double_field,
    key,
    number_field,
    text_field,
    varint,
)

BLOCK_BYTES = 1 << 20

_MAX_INTERNED = 200_000
"""Maximum number of interned names, to limit memory; other names are repeated per slice."""

_EXPLICIT_ORDER = 3
_MERGE_BY_KEY = 3
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4

# trusted_packet_sequence_id is 1. sequence_flags: 1 resets the interned data, 2 requires it.
_FIRST = number_field(10, 1) + number_field(13, 3)
_NEXT = number_field(10, 1) + number_field(13, 2)

_PACKET = key(1, 2)
_TIMESTAMP = key(8, 0)
_NEXT_EVENT = _NEXT + key(11, 2)
_ANNOTATION = key(4, 2)
_FLOW = key(47, 1)
_INT_VALUE = key(4, 0)
_JSON_VALUE = key(9, 2)

_OF_NAME = (2, key(10, 0), 23)
_OF_CATEGORY = (1, key(3, 0), 22)
"""Fields of a name and of a category: in InternedData, and in TrackEvent by number and as text."""

_UNITS = {"ns": 1, "count": 2, "bytes": 3}
"""Units for which CounterDescriptor has a number; other units are written as text."""

_ANNOTATIONS = {"tracekit": 1, "args": 2, "extra": 3, "event_id": 4}
"""Numbers of the annotation names, which are interned first."""

_NAMED = {name: key(1, 0) + varint(number) for name, number in _ANNOTATIONS.items()}

_LONG = re.compile(r"[0-9]{19}")

Row = tuple[Any, ...]


class Slice(NamedTuple):
    """One slice of a track; a mark is a slice of duration 0.

    Rows may begin with other columns, and may omit trailing ones. `args`, `extra` (other members in
    the file), and `facts` (tracekit's attribution) are JSON. `arrows` has the numbers of arrows
    that begin here, and the negated numbers of arrows that end here. On a flat track, a slice with
    `is_inner` is part of the latest slice without `is_inner`.
    """

    start_ns: int
    dur_ns: int
    name: str
    category: str | None = None
    event_id: int | None = None
    args: str | None = None
    extra: str | None = None
    facts: str | None = None
    arrows: list[int] | None = None
    is_inner: bool = False


_NewLane = Callable[[int], tuple[bytes, bytes, bytes]]
"""Writes the track of a lane; returns the first bytes of its begin, end, and mark events."""


def _on(event: int, uuid: int) -> bytes:
    """Return the first bytes of an event: its type and its track."""
    return number_field(9, event) + number_field(11, uuid)


class _Track:
    """A track of slices: its lanes, and the first bytes of their packets."""

    __slots__ = ("begin", "end", "instant", "lanes", "new_lane")

    def __init__(self, new_lane: _NewLane, is_flat: bool) -> None:
        self.lanes = Lanes(is_flat=is_flat)
        self.new_lane = new_lane
        self.begin: list[bytes] = []
        self.end: list[bytes] = []
        self.instant: list[bytes] = []

    def need(self, lane: int) -> None:
        """Write the track of a lane unless it was already written."""
        while len(self.begin) <= lane:
            begin, end, instant = self.new_lane(len(self.begin))
            self.begin.append(begin)
            self.end.append(end)
            self.instant.append(instant)


class PacketWriter:
    """Writes the packets of one trace in blocks of :data:`BLOCK_BYTES`."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._parts: list[bytes] = []
        self._size = 0
        self.slice_count = 0
        self._uuid = 0
        self._names: dict[str, bytes] = {}
        self._categories: dict[str, bytes] = {}
        self._ended: list[tuple[int, int]] = []
        self._upper, self._upper_bytes = 0, varint(0)
        self._add(bytes_field(1, _FIRST))
        for name, number in _ANNOTATIONS.items():
            self._intern(3, number, name)

    # Tracks

    def group(self, name: str, parent: int = 0, rank: int = 0, about: str = "") -> int:
        return self._descriptor(name, parent, rank, number_field(11, _EXPLICIT_ORDER), about)

    def track(
        self, name: str, parent: int, rank: int, about: str = "", *, is_flat: bool = False
    ) -> _Track:
        """Write and return a track for slices; its first lane exists even without slices."""
        merged = number_field(15, _MERGE_BY_KEY) + text_field(16, f"{parent}/{rank}/{name}")

        def new_lane(lane: int) -> tuple[bytes, bytes, bytes]:
            uuid = self._descriptor(name, parent, rank, merged, "" if lane else about)
            return _on(_BEGIN, uuid), _on(_END, uuid), _on(_INSTANT, uuid)

        track = _Track(new_lane, is_flat)
        track.need(0)
        return track

    def counter(self, name: str, parent: int, rank: int, unit: str) -> bytes:
        """Write a counter track; return the first bytes of its value packets."""
        known = _UNITS.get(unit)
        of_unit = text_field(6, unit) if known is None else number_field(3, known)
        return _on(_COUNTER, self._descriptor(name, parent, rank, bytes_field(8, of_unit)))

    def _descriptor(self, name: str, parent: int, rank: int, more: bytes, about: str = "") -> int:
        self._uuid += 1
        descriptor = number_field(1, self._uuid) + text_field(2, name)
        if parent:
            descriptor += number_field(5, parent)
        if about:
            descriptor += text_field(14, about)
        descriptor += number_field(12, rank) + more
        self._add(bytes_field(1, _NEXT + bytes_field(60, descriptor)))
        return self._uuid

    # Events

    def slices(self, track: _Track, rows: Iterable[Row], skip: int) -> int:
        """Write the slices of a track and return their number.

        Rows have the columns of :class:`Slice` after `skip` other columns. They are sorted by
        start, then longest first. On a flat track, overlapping slices get their own lanes.
        """
        before = self.slice_count
        for row in rows:
            self._slice(track, Slice(*row[skip:]))
            self.slice_count += 1
        return self.slice_count - before

    def _slice(self, track: _Track, one: Slice) -> None:
        ended = self._ended
        lane = track.lanes.place(
            one.start_ns, one.start_ns + one.dur_ns, ended, is_inner=one.is_inner
        )
        if ended:
            self._end(track)
        track.need(lane)
        self._event(one.start_ns, track.begin[lane] + self._about(one))

    def finish(self, track: _Track) -> None:
        self._ended += track.lanes.close()
        self._end(track)

    def instants(self, track: _Track, rows: Iterable[Row], skip: int) -> None:
        for row in rows:
            one = Slice(*row[skip:])
            self._event(one.start_ns, track.instant[0] + self._about(one))

    def values(self, counter: bytes, rows: Iterable[Row], skip: int) -> None:
        """Write the values of a counter, each with its start time."""
        for row in rows:
            self._event(row[skip], counter + double_field(44, row[skip + 1]))

    def _end(self, track: _Track) -> None:
        for lane, end_ns in self._ended:
            self._event(end_ns, track.end[lane])
        self._ended.clear()

    def _about(self, one: Slice) -> bytes:
        """Return name, category, arrows, and annotations of a slice.

        Annotations are written as JSON, which the viewer parses.
        """
        parts = [self._names.get(one.name) or self._interned(self._names, one.name, *_OF_NAME)]
        if one.category is not None:
            result = self._categories.get(one.category)
            parts.append(result or self._interned(self._categories, one.category, *_OF_CATEGORY))
        for number in one.arrows or ():
            parts.append(_FLOW + abs(number).to_bytes(8, "little"))
        args, extra = _quoted_if_long(one.args), _quoted_if_long(one.extra)
        for name, text in (("tracekit", one.facts), ("args", args), ("extra", extra)):
            if text is not None:
                data = text.encode("utf-8", "replace")
                parts.append(_annotation(name, _JSON_VALUE + varint(len(data)) + data))
        if one.event_id is not None:
            parts.append(_annotation("event_id", _INT_VALUE + varint(one.event_id)))
        return b"".join(parts)

    def _event(self, ts_ns: int, event: bytes) -> None:
        # Consecutive times usually have the same upper bits.
        upper = ts_ns >> 28
        if upper != self._upper:
            self._upper, self._upper_bytes = upper, varint(upper)
        time = b"".join(
            (_TIMESTAMP, TWO_MORE[ts_ns & LOW], TWO_MORE[ts_ns >> 14 & LOW], self._upper_bytes)
        )
        length = varint(len(event))
        size = len(time) + len(_NEXT_EVENT) + len(length) + len(event)
        self._add(b"".join((_PACKET, varint(size), time, _NEXT_EVENT, length, event)))

    def _interned(
        self, known: dict[str, bytes], name: str, field: int, by_number: bytes, inline: int
    ) -> bytes:
        """Return the field for a name: its number, or its text if too many names are interned."""
        if len(known) >= _MAX_INTERNED:
            return text_field(inline, name)
        number = len(known) + 1
        self._intern(field, number, name)
        known[name] = result = by_number + varint(number)
        return result

    def _intern(self, field: int, number: int, name: str) -> None:
        entry = number_field(1, number) + text_field(2, name)
        data = bytes_field(12, bytes_field(field, entry))
        self._add(bytes_field(1, _NEXT + data))

    def _add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size >= BLOCK_BYTES:
            self.close()

    def close(self) -> None:
        self._write(b"".join(self._parts))
        self._parts.clear()
        self._size = 0


def _quoted_if_long(text: str | None) -> str | None:
    """Return JSON unchanged, or quoted as a JSON string if it contains very long numbers.

    Perfetto's engine misreads numbers above 64 bits; viewers show the string unchanged.
    """
    if text is None or not _LONG.search(text):
        return text
    return json.dumps(text, ensure_ascii=False)


def _annotation(name: str, value: bytes) -> bytes:
    named = _NAMED[name]
    return b"".join((_ANNOTATION, varint(len(named) + len(value)), named, value))


NESTING_LANES = 4
"""Number of lanes with nested slices. Slices on further lanes do not nest, so that the cost of a
slice does not depend on the number of overlapping slices."""

_NEVER = -(1 << 63)


class FlatLanes:
    __slots__ = ("_busy", "_count", "_free")

    def __init__(self) -> None:
        self._free: list[int] = []
        self._busy: list[tuple[int, int]] = []
        self._count = 0

    def place(self, start_ns: int, end_ns: int) -> int:
        """Return the first free lane, from 0, for the next slice. Slices arrive by start time."""
        while self._busy and self._busy[0][0] <= start_ns:
            heappush(self._free, heappop(self._busy)[1])
        if self._free:
            lane = heappop(self._free)
        else:
            lane = self._count
            self._count += 1
        heappush(self._busy, (end_ns, lane))
        return lane


class Lanes:
    """Lanes with nested slices, and the ends of open slices."""

    __slots__ = ("_flat", "_last", "_last_end_ns", "_nesting_count", "_stacks")

    def __init__(self, *, is_flat: bool = False) -> None:
        self._nesting_count = 0 if is_flat else NESTING_LANES
        self._stacks: list[list[int]] = []
        self._flat = FlatLanes()
        self._last, self._last_end_ns = 0, _NEVER

    def place(
        self, start_ns: int, end_ns: int, ended: list[tuple[int, int]], *, is_inner: bool = False
    ) -> int:
        """Return the lane of the next slice, from 0.

        Slices arrive by start time, then longest first. Parts of a slice (`is_inner`) follow it,
        and are placed on its lane unless they end later. The lane and end of slices that end before
        this one are appended to `ended`, innermost first.
        """
        if (
            is_inner
            and end_ns <= self._last_end_ns
            and self._fits(self._last, start_ns, end_ns, ended)
        ):
            return self._last
        for lane in range(min(self._nesting_count, len(self._stacks))):
            if self._fits(lane, start_ns, end_ns, ended):
                return lane
        lane = len(self._stacks)
        if lane >= self._nesting_count:
            lane = self._nesting_count + self._flat.place(start_ns, end_ns)
        if lane == len(self._stacks):
            self._stacks.append([])
        self._last, self._last_end_ns = lane, end_ns
        # All slices on a free flat lane have ended.
        self._fits(lane, start_ns, end_ns, ended)
        return lane

    def _fits(self, lane: int, start_ns: int, end_ns: int, ended: list[tuple[int, int]]) -> bool:
        """End the finished slices of a lane; place a slice there if it fits, else return False."""
        stack = self._stacks[lane]
        while stack and stack[-1] <= start_ns:
            ended.append((lane, stack.pop()))
        if stack and stack[-1] < end_ns:
            return False
        stack.append(end_ns)
        return True

    def close(self) -> list[tuple[int, int]]:
        """Close all open slices; return the lane and end (ns) of each, innermost first."""
        return [(lane, stack.pop()) for lane, stack in enumerate(self._stacks) for _ in [*stack]]
