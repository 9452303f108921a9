"""Packets of a Perfetto trace: tracks, slices, counters and marks, in native protobuf.

The format: protos/perfetto/trace of Perfetto, messages TracePacket, TrackDescriptor, TrackEvent,
DebugAnnotation and InternedData; the numbers below are those of their fields.

Times of a slice are exact in ns. A slice is a packet for its begin and one for its end; packets of
one time keep the order in which they are written, so that slices without length stay where they
belong. Names are written once and then by number.
"""

from __future__ import annotations

from collections.abc import Callable

from tracekit.export.lanes import Lanes
from tracekit.export.scene import Slice
from tracekit.export.wire import (
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
"""So much is gathered before it is handed on, bytes."""

_MAX_INTERNED = 200_000
"""Further names are written with each slice: memory has to stay bounded."""

_EXPLICIT_ORDER = 3
_MERGE_BY_KEY, _NO_MERGE = 3, 2
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4

# trusted_packet_sequence_id = 1, sequence_flags: interned data is needed, or starts anew.
_FIRST = number_field(10, 1) + number_field(13, 3)
_NEXT = number_field(10, 1) + number_field(13, 2)

_PACKET = key(1, 2)
_TIMESTAMP = key(8, 0)
_NEXT_EVENT = _NEXT + key(11, 2)
_BEGIN_ON = number_field(9, _BEGIN) + key(11, 0)
_END_ON = number_field(9, _END) + key(11, 0)
_INSTANT_ON = number_field(9, _INSTANT) + key(11, 0)
_COUNTER_ON = number_field(9, _COUNTER) + key(11, 0)
_NAME_IID = key(10, 0)
_CATEGORY_IID = key(3, 0)
_ANNOTATION = key(4, 2)
_FLOW = key(47, 1)
_COUNTER_VALUE = key(30, 0)
_INT_VALUE = key(4, 0)
_JSON_VALUE = key(9, 2)

_UNITS = {"ns": 1, "count": 2, "bytes": 3}
"""Units of CounterDescriptor that it has a number for."""


def _json(text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    return b"".join((_JSON_VALUE, varint(len(data)), data))


class Track:
    """A track of slices: where it is, and the lanes that it has."""

    __slots__ = ("begin", "end", "key", "lanes", "name", "parent", "rank")

    def __init__(self, name: str, parent: int, rank: int, merge_key: str) -> None:
        self.name = name
        self.parent = parent
        self.rank = rank
        self.key = merge_key
        self.lanes = Lanes()
        self.begin: dict[int, bytes] = {}
        self.end: dict[int, bytes] = {}


class PacketWriter:
    """Writes the packets of one trace in blocks.

    Args:
        write: takes a block of whole packets.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._parts: list[bytes] = []
        self._size = 0
        self._uuid = 0
        self._names: dict[str, bytes] = {}
        self._categories: dict[str, bytes] = {}
        self._annotation_names: dict[str, bytes] = {}
        self._new: list[bytes] = []
        self._ended: list[tuple[int, int]] = []
        self._upper, self._upper_bytes = 0, varint(0)
        self.slice_count = 0
        self._add(bytes_field(1, _FIRST))

    # Tracks

    def group(self, name: str, parent: int = 0, rank: int = 0, about: str = "") -> int:
        """Write a track that holds others, in the order of their ranks; return its number."""
        return self._descriptor(name, parent, rank, number_field(11, _EXPLICIT_ORDER), about)

    def track(self, name: str, parent: int, rank: int, about: str = "") -> Track:
        """Return a track for slices; it is written, lane by lane, with the first slice there."""
        track = Track(name, parent, rank, f"{parent}/{rank}/{name}")
        # The first lane is there even if no slice comes: an empty stream is one.
        self._lane(track, 0, about)
        return track

    def counter(self, name: str, parent: int, rank: int, unit: str) -> bytes:
        """Write a track of numbers; return what its values begin with."""
        known = _UNITS.get(unit)
        of_unit = text_field(6, unit) if known is None else number_field(3, known)
        uuid = self._descriptor(name, parent, rank, bytes_field(8, of_unit))
        return _COUNTER_ON + varint(uuid)

    def _lane(self, track: Track, lane: int, about: str = "") -> None:
        merged = number_field(15, _MERGE_BY_KEY) + text_field(16, track.key)
        uuid = varint(self._descriptor(track.name, track.parent, track.rank, merged, about))
        track.begin[lane] = _BEGIN_ON + uuid
        track.end[lane] = _END_ON + uuid

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

    def slice(self, track: Track, one: Slice) -> None:
        """Write a slice; those of a track come by start, of equal starts the longer first."""
        start_ns, dur_ns, name, category, event_id, args, extra, facts, arrows = one
        ended = self._ended
        lane = track.lanes.place(start_ns, start_ns + dur_ns, ended)
        if ended:
            self._end(track)
        if lane not in track.begin:
            self._lane(track, lane)
        event = track.begin[lane] + self._named(name, category)
        if arrows:
            event += b"".join([_FLOW + abs(number).to_bytes(8, "little") for number in arrows])
        event += self._about(event_id, args, extra, facts)
        self.slice_count += 1
        self._event(start_ns, event)

    def finish(self, track: Track) -> None:
        """Write the ends of what is open on a track."""
        self._ended += track.lanes.close()
        self._end(track)

    def _end(self, track: Track) -> None:
        for lane, end_ns in self._ended:
            self._event(end_ns, track.end[lane])
        self._ended.clear()

    def instant(self, track: Track, one: Slice) -> None:
        """Write a mark on a track: a slice that has no duration to speak of."""
        ts_ns, _, name, category, event_id, args, extra, facts, _ = one
        on = _INSTANT_ON + track.begin[0][len(_BEGIN_ON) :]
        about = self._about(event_id, args, extra, facts)
        self._event(ts_ns, on + self._named(name, category) + about)

    def value(self, counter: bytes, ts_ns: int, number: float) -> None:
        """Write the value that a counter has from now on."""
        if isinstance(number, int):
            self._event(ts_ns, counter + _COUNTER_VALUE + varint(number))
        else:
            self._event(ts_ns, counter + double_field(44, number))

    def _event(self, ts_ns: int, event: bytes) -> None:
        if self._new:
            self._intern()
        # The upper half of a time is that of the last one, mostly.
        upper = ts_ns >> 28
        if upper != self._upper:
            self._upper, self._upper_bytes = upper, varint(upper)
        time = b"".join(
            (_TIMESTAMP, TWO_MORE[ts_ns & LOW], TWO_MORE[ts_ns >> 14 & LOW], self._upper_bytes)
        )
        length = varint(len(event))
        size = len(time) + len(_NEXT_EVENT) + len(length) + len(event)
        self._add(b"".join((_PACKET, varint(size), time, _NEXT_EVENT, length, event)))

    # Names and annotations

    def _named(self, name: str, category: str | None) -> bytes:
        """Return the fields of a name and a category."""
        found = self._names.get(name)
        if found is None:
            found = self._interned(self._names, name, 2, _NAME_IID, text_field(23, name))
        if category is None:
            return found
        of_category = self._categories.get(category)
        if of_category is None:
            inline = text_field(22, category)
            of_category = self._interned(self._categories, category, 1, _CATEGORY_IID, inline)
        return found + of_category

    def _about(
        self, event_id: int | None, args: str | None, extra: str | None, facts: str | None
    ) -> bytes:
        """Return the annotations of a slice: what is JSON is taken apart by the viewer."""
        parts = []
        if facts is not None:
            parts.append(self._annotation("tracekit", _json(facts)))
        if args is not None:
            parts.append(self._annotation("args", _json(args)))
        if extra is not None:
            parts.append(self._annotation("extra", _json(extra)))
        if event_id is not None:
            parts.append(self._annotation("event_id", _INT_VALUE + varint(event_id)))
        return b"".join(parts)

    def _annotation(self, name: str, value: bytes) -> bytes:
        found = self._annotation_names.get(name)
        if found is None:
            found = self._interned(self._annotation_names, name, 3, key(1, 0), text_field(10, name))
        return b"".join((_ANNOTATION, varint(len(found) + len(value)), found, value))

    def _interned(
        self, known: dict[str, bytes], name: str, field: int, by_number: bytes, inline: bytes
    ) -> bytes:
        if len(known) >= _MAX_INTERNED:
            return inline
        number = len(known) + 1
        entry = number_field(1, number) + text_field(2, name)
        self._new.append(bytes_field(field, entry))
        known[name] = found = by_number + varint(number)
        return found

    def _intern(self) -> None:
        self._add(bytes_field(1, _NEXT + bytes_field(12, b"".join(self._new))))
        self._new.clear()

    # Output

    def _add(self, packet: bytes) -> None:
        self._parts.append(packet)
        self._size += len(packet)
        if self._size >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand on what has been gathered."""
        self._write(b"".join(self._parts))
        self._parts.clear()
        self._size = 0
