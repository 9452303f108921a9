"""Packets of a Perfetto trace: tracks, slices, counters and marks, in native protobuf.

The format: protos/perfetto/trace of Perfetto, messages TracePacket, TrackDescriptor, TrackEvent,
DebugAnnotation and InternedData; the numbers below are those of their fields.

Times of a slice are exact in ns. A slice is a packet for its begin and one for its end; packets of
one time keep the order in which they are written, so that slices without length stay where they
belong. Names are written once and then by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tracekit.export.packet_encoder import ARGS, EVENT_ID, EXTRA, FACTS, NEXT, PacketEncoder
from tracekit.export.scene import Row
from tracekit.wire import bytes_field, key, number_field, text_field, varint

BLOCK_BYTES = 1 << 20
"""So much is gathered before it is handed on, bytes."""

_MAX_INTERNED = 200_000
"""Further names are written with each slice: memory has to stay bounded."""

_EXPLICIT_ORDER = 3
_MERGE_BY_KEY = 3
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4

# trusted_packet_sequence_id = 1, sequence_flags: interned data starts anew, and is needed.
_FIRST = number_field(10, 1) + number_field(13, 3)

_NAME_IID = key(10, 0)
_CATEGORY_IID = key(3, 0)

_UNITS = {"ns": 1, "count": 2, "bytes": 3}
"""Units of CounterDescriptor that it has a number for."""

_ANNOTATIONS = {"tracekit": FACTS, "args": ARGS, "extra": EXTRA, "event_id": EVENT_ID}


def _on(event: int, uuid: int) -> bytes:
    """Return what an event begins with: which it is, and its track."""
    return number_field(9, event) + number_field(11, uuid)


class PacketWriter:
    """Writes the packets of one trace in blocks.

    Args:
        write: takes a block of whole packets.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._uuid = 0
        self._names: dict[str, bytes] = {}
        self._categories: dict[str, bytes] = {}
        self._encoder = PacketEncoder(
            write,
            BLOCK_BYTES,
            self._names,
            self._categories,
            self._name_of,
            self._category_of,
        )
        self._encoder.add(bytes_field(1, _FIRST))
        for name, number in _ANNOTATIONS.items():
            self._intern(3, number, name)

    @property
    def slice_count(self) -> int:
        """Slices written so far."""
        return self._encoder.slice_count

    # Tracks

    def group(self, name: str, parent: int = 0, rank: int = 0, about: str = "") -> int:
        """Write a track that holds others, in the order of their ranks; return its number."""
        return self._descriptor(name, parent, rank, number_field(11, _EXPLICIT_ORDER), about)

    def track(
        self, name: str, parent: int, rank: int, about: str = "", *, is_flat: bool = False
    ) -> Any:
        """Return a track for slices; it is written, lane by lane, with the first slice there."""
        merged = number_field(15, _MERGE_BY_KEY) + text_field(16, f"{parent}/{rank}/{name}")

        def new_lane(lane: int) -> tuple[bytes, bytes, bytes]:
            uuid = self._descriptor(name, parent, rank, merged, "" if lane else about)
            return _on(_BEGIN, uuid), _on(_END, uuid), _on(_INSTANT, uuid)

        return self._encoder.track(new_lane, is_flat)

    def counter(self, name: str, parent: int, rank: int, unit: str) -> bytes:
        """Write a track of numbers; return what its values begin with."""
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
        self._encoder.add(bytes_field(1, NEXT + bytes_field(60, descriptor)))
        return self._uuid

    # Events

    def slices(self, track: Any, rows: Iterable[Row], skip: int) -> int:
        """Write slices; those of a track come by start, of equal starts the longer first."""
        return self._encoder.slices(track, rows, skip)

    def finish(self, track: Any) -> None:
        """Write the ends of what is open on a track."""
        self._encoder.finish(track)

    def instants(self, track: Any, rows: Iterable[Row], skip: int) -> int:
        """Write marks on a track: slices that have no duration to speak of."""
        return self._encoder.instants(track, rows, skip)

    def values(self, counter: bytes, rows: Iterable[Row], skip: int) -> None:
        """Write the values that a counter has, each from a time on."""
        self._encoder.values(counter, rows, skip)

    def flush(self) -> None:
        """Hand on what has been gathered."""
        self._encoder.flush()

    # Names

    def _name_of(self, name: str) -> bytes:
        return self._interned(self._names, name, 2, _NAME_IID, 23)

    def _category_of(self, category: str) -> bytes:
        return self._interned(self._categories, category, 1, _CATEGORY_IID, 22)

    def _interned(
        self, known: dict[str, bytes], name: str, field: int, by_number: bytes, inline: int
    ) -> bytes:
        """Return the field that says a name: by its number, or as it is if there are too many."""
        if len(known) >= _MAX_INTERNED:
            return text_field(inline, name)
        number = len(known) + 1
        self._intern(field, number, name)
        known[name] = found = by_number + varint(number)
        return found

    def _intern(self, field: int, number: int, name: str) -> None:
        entry = number_field(1, number) + text_field(2, name)
        data = bytes_field(12, bytes_field(field, entry))
        self._encoder.add(bytes_field(1, NEXT + data))
