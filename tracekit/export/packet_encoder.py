"""Slices, marks and values as packets of a Perfetto trace: what there are millions of.

The format is that of packets, whose descriptors and names these packets refer to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tracekit.export.lanes import Lanes
from tracekit.export.long_numbers import quoted_if_long
from tracekit.export.scene import Row, Slice
from tracekit.wire import LOW, TWO_MORE, double_field, key, number_field, varint

# trusted_packet_sequence_id = 1, sequence_flags: interned data is needed.
NEXT = number_field(10, 1) + number_field(13, 2)

_PACKET = key(1, 2)
_TIMESTAMP = key(8, 0)
_NEXT_EVENT = NEXT + key(11, 2)
_ANNOTATION = key(4, 2)
_FLOW = key(47, 1)
_INT_VALUE = key(4, 0)
_JSON_VALUE = key(9, 2)

FACTS, ARGS, EXTRA, EVENT_ID = 1, 2, 3, 4
"""Numbers of the names of annotations, which are interned before everything else."""

_NAMED = {number: key(1, 0) + varint(number) for number in (FACTS, ARGS, EXTRA, EVENT_ID)}

NewLane = Callable[[int], tuple[bytes, bytes, bytes]]
"""Writes the track of a lane; returns what a begin, an end and a mark there begin with."""


class PacketTrack:
    """A track of slices: its lanes, and what their packets begin with."""

    __slots__ = ("begin", "end", "instant", "lanes", "new_lane")

    def __init__(self, new_lane: NewLane, is_flat: bool) -> None:
        self.lanes = Lanes(is_flat=is_flat)
        self.new_lane = new_lane
        self.begin: list[bytes] = []
        self.end: list[bytes] = []
        self.instant: list[bytes] = []

    def need(self, lane: int) -> None:
        """Write the track of a lane that is new."""
        while len(self.begin) <= lane:
            begin, end, instant = self.new_lane(len(self.begin))
            self.begin.append(begin)
            self.end.append(end)
            self.instant.append(instant)


class PacketEncoder:
    """Gathers packets and hands them on in blocks.

    Args:
        write: takes a block of whole packets.
        block_bytes: so much is gathered, bytes.
        names: by name, the field that says it; others are asked for.
        categories: by category, likewise.
        name_of: returns the field of a name that is not among them.
        category_of: returns that of a category.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        block_bytes: int,
        names: dict[str, bytes],
        categories: dict[str, bytes],
        name_of: Callable[[str], bytes],
        category_of: Callable[[str], bytes],
    ) -> None:
        self._write = write
        self._block_bytes = block_bytes
        self._names, self._categories = names, categories
        self._name_of, self._category_of = name_of, category_of
        self._parts: list[bytes] = []
        self._size = 0
        self._ended: list[tuple[int, int]] = []
        self._upper, self._upper_bytes = 0, varint(0)
        self.slice_count = 0

    def track(self, new_lane: NewLane, is_flat: bool) -> PacketTrack:
        """Return a track; its first lane is there even if no slice comes."""
        track = PacketTrack(new_lane, is_flat)
        track.need(0)
        return track

    def slices(self, track: PacketTrack, rows: Iterable[Row], skip: int) -> int:
        """Write slices; return how many they were."""
        ended = self._ended
        count = 0
        for row in rows:
            one = Slice(*row[skip:])
            lane = track.lanes.place(
                one.start_ns, one.start_ns + one.dur_ns, ended, is_inner=one.is_inner
            )
            if ended:
                self._end(track)
            track.need(lane)
            self._event(one.start_ns, track.begin[lane] + self._about(one))
            count += 1
        self.slice_count += count
        return count

    def finish(self, track: PacketTrack) -> None:
        """Write the ends of what is open on a track."""
        self._ended += track.lanes.close()
        self._end(track)

    def instants(self, track: PacketTrack, rows: Iterable[Row], skip: int) -> int:
        """Write marks on a track; return how many they were."""
        count = 0
        for row in rows:
            one = Slice(*row[skip:])
            self._event(one.start_ns, track.instant[0] + self._about(one))
            count += 1
        return count

    def values(self, counter: bytes, rows: Iterable[Row], skip: int) -> None:
        """Write the values of a counter, each with the time from which on it has it."""
        for row in rows:
            self._event(row[skip], counter + double_field(44, row[skip + 1]))

    def _end(self, track: PacketTrack) -> None:
        for lane, end_ns in self._ended:
            self._event(end_ns, track.end[lane])
        self._ended.clear()

    def _about(self, one: Slice) -> bytes:
        """Return the name and the category of a slice, its arrows and its annotations.

        What is JSON is taken apart by the viewer.
        """
        parts = [self._names.get(one.name) or self._name_of(one.name)]
        if one.category is not None:
            found = self._categories.get(one.category)
            parts.append(found or self._category_of(one.category))
        for number in one.arrows or ():
            parts.append(_FLOW + abs(number).to_bytes(8, "little"))
        args, extra = quoted_if_long(one.args), quoted_if_long(one.extra)
        for name, text in ((FACTS, one.facts), (ARGS, args), (EXTRA, extra)):
            if text is not None:
                data = text.encode("utf-8", "replace")
                parts.append(_annotation(name, _JSON_VALUE + varint(len(data)) + data))
        if one.event_id is not None:
            parts.append(_annotation(EVENT_ID, _INT_VALUE + varint(one.event_id)))
        return b"".join(parts)

    def _event(self, ts_ns: int, event: bytes) -> None:
        # The upper part of a time is that of the last one, mostly.
        upper = ts_ns >> 28
        if upper != self._upper:
            self._upper, self._upper_bytes = upper, varint(upper)
        time = b"".join(
            (_TIMESTAMP, TWO_MORE[ts_ns & LOW], TWO_MORE[ts_ns >> 14 & LOW], self._upper_bytes)
        )
        length = varint(len(event))
        size = len(time) + len(_NEXT_EVENT) + len(length) + len(event)
        self.add(b"".join((_PACKET, varint(size), time, _NEXT_EVENT, length, event)))

    def add(self, packet: bytes) -> None:
        """Gather a packet."""
        self._parts.append(packet)
        self._size += len(packet)
        if self._size >= self._block_bytes:
            self.flush()

    def flush(self) -> None:
        """Hand on what has been gathered."""
        self._write(b"".join(self._parts))
        self._parts.clear()
        self._size = 0


def _annotation(name: int, value: bytes) -> bytes:
    named = _NAMED[name]
    return b"".join((_ANNOTATION, varint(len(named) + len(value)), named, value))
