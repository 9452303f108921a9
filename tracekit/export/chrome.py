"""A trace as Chrome's JSON, for the viewers that read nothing else.

The format: "Trace Event Format" (Google, 2016). What it cannot say: groups of tracks lie in
processes and no deeper; a counter has no unit; slices that overlap need a thread of their own. Its
times are in µs: they are written with three decimals, which are exact as text, and count from the
start of the export, because viewers read them as doubles.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from tracekit.export.lanes import Lanes
from tracekit.export.packets import BLOCK_BYTES
from tracekit.export.scene import Slice
from tracekit.export.selection import Selection, scope_of
from tracekit.export.tracks import Tracks
from tracekit.export.written import Exported

if TYPE_CHECKING:
    from tracekit.trace import Trace

LOST = (
    "Chrome's JSON has no groups within groups and no units of counters: "
    "tracekit export perfetto has them"
)


def export_chrome(
    trace: Trace,
    write: Callable[[bytes], object],
    selection: Selection | None = None,
    *,
    args: bool = True,
) -> Exported:
    """Write traces as Chrome's JSON.

    Args:
        trace: the opened traces.
        write: takes blocks of the file.
        selection: what is written; all if None.
        args: write the arguments of events.

    Raises:
        QueryError: nothing is chosen.
    """
    scope = scope_of(trace, selection or Selection())
    firsts = dict(trace.sql("SELECT trace_id, first_ts_ns FROM trace").rows)
    origin_ns = min(firsts[part.trace_id] + part.shift_ns for part in scope.parts)
    writer = ChromeWriter(write, origin_ns)
    tracks = Tracks(trace, scope, writer, args=args)
    tracks.write()
    return Exported(len(scope.parts), tracks.event_count, writer.slice_count, [*scope.notes, LOST])


class ChromeTrack:
    """A track of slices: its process, and a thread for each of its lanes."""

    def __init__(self, name: str, process: int, rank: int) -> None:
        self.name = name
        self.process = process
        self.rank = rank
        self.lanes = Lanes()
        self.threads: dict[int, str] = {}


class ChromeWriter:
    """Writes the events of one JSON file in blocks.

    Args:
        write: takes a block.
        origin_ns: the time that is 0 in the file, ns on the axis of the export.
    """

    def __init__(self, write: Callable[[bytes], object], origin_ns: int) -> None:
        self._write = write
        self._origin_ns = origin_ns
        self._parts: list[str] = []
        self._size = 0
        self._number = 0
        self._groups: dict[int, str] = {}
        self.slice_count = 0
        self._gap = f'{{"baseTimeNanoseconds": {origin_ns}, "traceEvents": [\n'

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

    def track(self, name: str, parent: int, rank: int, about: str = "") -> ChromeTrack:
        """Return a track for slices; it has a thread with its first slice."""
        del about
        return ChromeTrack(name, parent, rank)

    def slice(self, track: ChromeTrack, one: Slice) -> None:
        """Write a slice; those of a track come by start, of equal starts the longer first."""
        lane = track.lanes.place(one.start_ns, one.start_ns + one.dur_ns, [])
        place = self._place(track, lane)
        self.slice_count += 1
        self._add(
            f'{{"ph": "X", {place}, "ts": {self._us(one.start_ns - self._origin_ns)}, '
            f'"dur": {self._us(one.dur_ns)}, {self._about(one)}}}'
        )
        for number in one.arrows or ():
            ends = '"s"' if number > 0 else '"f", "bp": "e"'
            self._add(
                f'{{"ph": {ends}, "id": {abs(number)}, {place}, "cat": "tracekit", '
                f'"name": "arrow", "ts": {self._us(one.start_ns - self._origin_ns)}}}'
            )

    def finish(self, track: ChromeTrack) -> None:
        """Nothing is left open: every slice tells its duration."""

    def instant(self, track: ChromeTrack, one: Slice) -> None:
        """Write a mark on a track."""
        place = self._place(track, 0)
        self._add(
            f'{{"ph": "i", "s": "t", {place}, "ts": {self._us(one.start_ns - self._origin_ns)}, '
            f"{self._about(one)}}}"
        )

    def counter(self, name: str, parent: int, rank: int, unit: str) -> str:
        """Return what the values of a counter begin with; its unit is part of its name."""
        del rank
        whole = json.dumps(f"{name} ({unit})" if unit else name)
        return f'{{"ph": "C", "pid": {parent}, "name": {whole}, '

    def value(self, counter: str, ts_ns: int, number: float) -> None:
        """Write the value that a counter has from now on."""
        at = self._us(ts_ns - self._origin_ns)
        self._add(f'{counter}"ts": {at}, "args": {{"value": {json.dumps(number)}}}}}')

    def flush(self) -> None:
        """Write the end of the file."""
        if not self._parts:
            self._parts.append(self._gap)
        self._parts.append("\n]}\n")
        self._hand_on()

    def _place(self, track: ChromeTrack, lane: int) -> str:
        place = track.threads.get(lane)
        if place is None:
            self._number += 1
            thread = self._number
            name = track.name if lane == 0 else f"{track.name} · {lane + 1}"
            self._named("thread_name", track.process, thread, "name", name)
            self._named("thread_sort_index", track.process, thread, "sort_index", track.rank)
            place = track.threads[lane] = f'"pid": {track.process}, "tid": {thread}'
        return place

    def _named(self, what: str, process: int, thread: int, key: str, value: str | int) -> None:
        self._add(
            f'{{"ph": "M", "name": "{what}", "pid": {process}, "tid": {thread}, '
            f'"args": {{"{key}": {json.dumps(value)}}}}}'
        )

    @staticmethod
    def _us(ns: int) -> str:
        """Return µs with three decimals, from ns."""
        sign = "-" if ns < 0 else ""
        whole, rest = divmod(abs(ns), 1_000)
        return f"{sign}{whole}.{rest:03d}" if rest else f"{sign}{whole}"

    @staticmethod
    def _about(one: Slice) -> str:
        parts = []
        if one.event_id is not None:
            parts.append(f'"event_id": {one.event_id}')
        if one.facts is not None:
            parts.append(f'"tracekit": {one.facts}')
        if one.args is not None:
            parts.append(f'"args": {one.args}')
        if one.extra is not None:
            parts.append(f'"extra": {one.extra}')
        category = "tracekit" if one.category is None else one.category
        return (
            f'"name": {json.dumps(one.name)}, "cat": {json.dumps(category)}, '
            f'"args": {{{", ".join(parts)}}}'
        )

    def _add(self, event: str) -> None:
        self._parts.append(self._gap + event)
        self._gap = ",\n"
        self._size += len(event) + 2
        if self._size >= BLOCK_BYTES:
            self._hand_on()

    def _hand_on(self) -> None:
        self._write("".join(self._parts).encode("utf-8", "replace"))
        self._parts.clear()
        self._size = 0
