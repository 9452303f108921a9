"""Slices, marks and values as Chrome's JSON: what there are millions of."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tracekit.export.lanes import Lanes
from tracekit.export.long_numbers import quoted_if_long
from tracekit.export.scene import Row, Slice

NewLane = Callable[[int], bytes]
"""Writes the thread of a lane; returns its `"pid": 1, "tid": 2`."""


class ChromeTrack:
    """A track of slices: a thread for each of its lanes, which is there with its first slice."""

    __slots__ = ("lanes", "new_lane", "places")

    def __init__(self, new_lane: NewLane, is_flat: bool) -> None:
        self.lanes = Lanes(is_flat=is_flat)
        self.new_lane = new_lane
        self.places: list[bytes] = []

    def place(self, lane: int) -> bytes:
        """Return where a lane is."""
        while len(self.places) <= lane:
            self.places.append(self.new_lane(len(self.places)))
        return self.places[lane]


class ChromeEncoder:
    """Gathers events and hands them on in blocks.

    Args:
        write: takes a block.
        block_bytes: so much is gathered, bytes.
        origin_ns: the time that is 0 in the file, ns on the axis of the export.
        texts: by text, its JSON; others are asked for.
        text_of: returns the JSON of a text that is not among them.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        block_bytes: int,
        origin_ns: int,
        texts: dict[str, bytes],
        text_of: Callable[[str], bytes],
    ) -> None:
        self._write = write
        self._block_bytes = block_bytes
        self._origin_ns = origin_ns
        self._texts, self._text_of = texts, text_of
        self._parts: list[bytes] = []
        self._size = 0
        self.slice_count = 0

    def track(self, new_lane: NewLane, is_flat: bool) -> ChromeTrack:
        """Return a track."""
        return ChromeTrack(new_lane, is_flat)

    def slices(self, track: ChromeTrack, rows: Iterable[Row], skip: int) -> int:
        """Write slices, and the ends of arrows at them; return how many slices they were."""
        ended: list[tuple[int, int]] = []
        count = 0
        for row in rows:
            one = Slice(*row[skip:])
            end_ns = one.start_ns + one.dur_ns
            place = track.place(
                track.lanes.place(one.start_ns, end_ns, ended, is_inner=one.is_inner)
            )
            ended.clear()
            at = self._us(one.start_ns - self._origin_ns)
            about = self._about(one)
            self.add(
                b'{"ph": "X", %b, "ts": %b, "dur": %b, %b}'
                % (place, at, self._us(one.dur_ns), about)
            )
            for number in one.arrows or ():
                ends = b'"s"' if number > 0 else b'"f", "bp": "e"'
                self.add(
                    b'{"ph": %b, "id": %d, %b, "cat": "tracekit", "name": "arrow", "ts": %b}'
                    % (ends, abs(number), place, at)
                )
            count += 1
        self.slice_count += count
        return count

    def finish(self, track: ChromeTrack) -> None:
        """Nothing is left open: every slice tells its duration."""

    def instants(self, track: ChromeTrack, rows: Iterable[Row], skip: int) -> int:
        """Write marks on a track; return how many they were."""
        count = 0
        for row in rows:
            one = Slice(*row[skip:])
            place, about = track.place(0), self._about(one)
            at = self._us(one.start_ns - self._origin_ns)
            self.add(b'{"ph": "i", "s": "t", %b, "ts": %b, %b}' % (place, at, about))
            count += 1
        return count

    def values(self, counter: bytes, rows: Iterable[Row], skip: int) -> None:
        """Write the values of a counter, each with the time from which on it has it."""
        for row in rows:
            at = self._us(row[skip] - self._origin_ns)
            value = repr(row[skip + 1]).encode()
            self.add(b'%b"ts": %b, "args": {"value": %b}}' % (counter, at, value))

    @staticmethod
    def _us(ns: int) -> bytes:
        """Return µs with three decimals, from ns."""
        sign = b"-" if ns < 0 else b""
        whole, rest = divmod(abs(ns), 1_000)
        return b"%b%d.%03d" % (sign, whole, rest) if rest else b"%b%d" % (sign, whole)

    def _about(self, one: Slice) -> bytes:
        texts = self._texts
        name = texts.get(one.name) or self._text_of(one.name)
        of_category = b""
        # What is an event of the file has the category that it had there, or none.
        if one.category is not None or one.event_id is None:
            category = "tracekit" if one.category is None else one.category
            of_category = b'"cat": %b, ' % (texts.get(category) or self._text_of(category))
        parts = []
        if one.event_id is not None:
            parts.append(b'"event_id": %d' % one.event_id)
        for key, text in (
            (b'"tracekit": ', one.facts),
            (b'"args": ', quoted_if_long(one.args)),
            (b'"extra": ', quoted_if_long(one.extra)),
        ):
            if text is not None:
                parts.append(key + text.encode("utf-8", "replace"))
        return b'"name": %b, %b"args": {%b}' % (name, of_category, b", ".join(parts))

    def add(self, event: bytes, gap: bytes = b",\n") -> None:
        """Gather an event, behind what separates it from the one before."""
        self._parts.append(gap + event)
        self._size += len(gap) + len(event)
        if self._size >= self._block_bytes:
            self.flush()

    def flush(self) -> None:
        """Hand on what has been gathered."""
        self._write(b"".join(self._parts))
        self._parts.clear()
        self._size = 0
