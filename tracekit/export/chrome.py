"""A trace as Chrome's JSON, for the viewers that read nothing else.

The format: "Trace Event Format" (Google, 2016). What it cannot say: groups of tracks lie in
processes and no deeper; a counter has no unit; slices that overlap need a thread of their own. Its
times are in µs: they are written with three decimals, which are exact as text, and count from the
start of the export, because viewers read them as doubles.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from tracekit.export.exporting import Exported, export
from tracekit.export.lanes import Lanes
from tracekit.export.scene import Row, Slice, Writer, quoted_if_long
from tracekit.export.selection import Scope, Selection
from tracekit.trace import Trace

LOST = (
    "Chrome's JSON has no groups within groups and no units of counters: "
    "tracekit export perfetto has them"
)

_MAX_TEXTS = 200_000
"""The JSON of further names is made each time: memory has to stay bounded."""


def export_chrome(
    trace: Trace,
    write: Callable[[bytes], object],
    selection: Selection | None = None,
    *,
    args: bool = True,
) -> Exported:
    """Write traces as Chrome's JSON; the arguments and errors are those of export_perfetto()."""
    firsts = dict(trace.sql("SELECT trace_id, first_ts_ns FROM trace").rows)

    def writer_of(scope: Scope) -> ChromeWriter:
        origin_ns = min(firsts[part.trace_id] + part.shift_ns for part in scope.parts)
        return ChromeWriter(write, origin_ns)

    return export(trace, writer_of, selection, args=args, lost=LOST)


class _Track:
    """A track of slices: a thread for each of its lanes, which is there with its first slice.

    `new_lane` writes the thread of a lane and returns its `"pid": 1, "tid": 2`.
    """

    __slots__ = ("lanes", "new_lane", "places")

    def __init__(self, new_lane: Callable[[int], bytes], is_flat: bool) -> None:
        self.lanes = Lanes(is_flat=is_flat)
        self.new_lane = new_lane
        self.places: list[bytes] = []

    def place(self, lane: int) -> bytes:
        while len(self.places) <= lane:
            self.places.append(self.new_lane(len(self.places)))
        return self.places[lane]


class ChromeWriter(Writer):
    """Writes the events of one JSON file in blocks.

    Args:
        write: takes a block.
        origin_ns: the time that is 0 in the file, ns on the axis of the export.
    """

    def __init__(self, write: Callable[[bytes], object], origin_ns: int) -> None:
        super().__init__(write)
        self._origin_ns = origin_ns
        self._number = 0
        self._groups: dict[int, str] = {}
        self._texts: dict[str, bytes] = {}
        self._add(b'{"baseTimeNanoseconds": %d, "traceEvents": [\n' % origin_ns)
        # Something has to stand before the first comma.
        self._add(b'{"ph": "M", "name": "tracekit", "pid": 0, "args": {}}')

    def group(self, name: str, parent: int = 0, rank: int = 0, about: str = "") -> int:
        """Write a group of tracks: a process; return its number."""
        del rank
        self._number += 1
        whole = f"{self._groups[parent]} · {name}" if parent else name
        self._groups[self._number] = whole
        self._named("process_name", self._number, 0, "name", whole)
        # Numbers are given in the order in which the groups shall stand.
        self._named("process_sort_index", self._number, 0, "sort_index", self._number)
        if about:
            self._named("process_labels", self._number, 0, "labels", about)
        return self._number

    def track(
        self, name: str, parent: int, rank: int, about: str = "", *, is_flat: bool = False
    ) -> _Track:
        """Return a track for slices; it has a thread with its first slice."""
        del about

        def new_lane(lane: int) -> bytes:
            self._number += 1
            thread = self._number
            whole = name if lane == 0 else f"{name} · {lane + 1}"
            self._named("thread_name", parent, thread, "name", whole)
            self._named("thread_sort_index", parent, thread, "sort_index", rank)
            return b'"pid": %d, "tid": %d' % (parent, thread)

        return _Track(new_lane, is_flat)

    def _slice(self, track: _Track, one: Slice) -> None:
        end_ns = one.start_ns + one.dur_ns
        # Every slice tells its duration: what has ended is not written.
        place = track.place(track.lanes.place(one.start_ns, end_ns, [], is_inner=one.is_inner))
        at = self._us(one.start_ns - self._origin_ns)
        about = self._about(one)
        self._event(
            b'{"ph": "X", %b, "ts": %b, "dur": %b, %b}' % (place, at, self._us(one.dur_ns), about)
        )
        for number in one.arrows or ():
            ends = b'"s"' if number > 0 else b'"f", "bp": "e"'
            self._event(
                b'{"ph": %b, "id": %d, %b, "cat": "tracekit", "name": "arrow", "ts": %b}'
                % (ends, abs(number), place, at)
            )

    def instants(self, track: _Track, rows: Iterable[Row], skip: int) -> None:
        """Write marks on a track."""
        for row in rows:
            one = Slice(*row[skip:])
            place, about = track.place(0), self._about(one)
            at = self._us(one.start_ns - self._origin_ns)
            self._event(b'{"ph": "i", "s": "t", %b, "ts": %b, %b}' % (place, at, about))

    def counter(self, name: str, parent: int, rank: int, unit: str) -> bytes:
        """Return what the values of a counter begin with; its unit is part of its name."""
        del rank
        whole = json.dumps(f"{name} ({unit})" if unit else name).encode()
        return b'{"ph": "C", "pid": %d, "name": %b, ' % (parent, whole)

    def values(self, counter: bytes, rows: Iterable[Row], skip: int) -> None:
        """Write the values that a counter has, each from a time on."""
        for row in rows:
            at = self._us(row[skip] - self._origin_ns)
            value = repr(row[skip + 1]).encode()
            self._event(b'%b"ts": %b, "args": {"value": %b}}' % (counter, at, value))

    def close(self) -> None:
        """Write the end of the file."""
        self._add(b"\n]}\n")
        super().close()

    def _named(self, what: str, process: int, thread: int, key: str, value: str | int) -> None:
        self._event(
            b'{"ph": "M", "name": "%b", "pid": %d, "tid": %d, "args": {"%b": %b}}'
            % (what.encode(), process, thread, key.encode(), json.dumps(value).encode())
        )

    def _event(self, event: bytes) -> None:
        self._add(b",\n" + event)

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

    def _text_of(self, text: str) -> bytes:
        found = json.dumps(text).encode()
        if len(self._texts) < _MAX_TEXTS:
            self._texts[text] = found
        return found
