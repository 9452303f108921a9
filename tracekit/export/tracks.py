"""The tracks of an export: which there are, in which order, and what is on them.

Of each rank: its steps; of each device our attribution, then its streams and counters; the threads
of the host. Requests of serving stand beside the ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tracekit.export import scene_queries as queries
from tracekit.export.lanes import FlatLanes
from tracekit.export.scene import Slice, Writer

if TYPE_CHECKING:
    from tracekit.export.selection import Scope
    from tracekit.trace import Trace

_ATTRIBUTION = (
    (1, "timeline", queries.TIMELINE),
    (2, "phases", queries.PHASES),
    (3, "modules", queries.MODULES),
    (4, "idle causes", queries.GAPS),
    (5, "steps", queries.DEVICE_STEPS),
)
"""Tracks of a device that need no more lanes than they have: place, name, statement."""

_COLLECTIVES_PLACE, _STREAMS_PLACE, _COUNTERS_PLACE = 6, 100, 100_000
_DEVICES_PLACE, _HOST_PLACE = 10, 1_000


class Tracks:
    """Writes the tracks of the chosen traces.

    Args:
        trace: the store.
        scope: what is exported.
        writer: the format.
        args: write the arguments of events.
    """

    def __init__(self, trace: Trace, scope: Scope, writer: Writer, *, args: bool = True) -> None:
        self._trace = trace
        self._scope = scope
        self._writer = writer
        self._args = args
        self._ranks: dict[int, int] = {}
        self._devices: dict[tuple[int, str], int] = {}
        self._threads: dict[tuple[int, int, int], _Thread] = {}
        self.event_count = 0
        self.instant_count = 0

    def write(self) -> None:
        """Write everything."""
        writer = self._writer
        for place, part in enumerate(self._scope.parts, start=1):
            self._ranks[part.trace_id] = writer.group(part.name, 0, place, part.about)
        self._write_of_ranks("steps", queries.HOST_STEPS, 1)
        self._write_of_ranks("serving steps", queries.SERVING_STEPS, 2)
        self._find_devices()
        for place, name, template in _ATTRIBUTION:
            for (trace_id, device), rows in groupby(self._rows(template), lambda row: row[:2]):
                track = writer.track(name, self._device(trace_id, device), place)
                for row in rows:
                    writer.slice(track, Slice(*row[2:]))
                writer.finish(track)
        self._write_collectives()
        self._find_threads()
        self._write_events()
        self._write_instants()
        self._write_counters()
        if self._scope.is_since_epoch:
            self._write_requests()
        writer.flush()

    def _rows(self, template: str, *, is_whole: bool = True) -> Iterator[tuple[Any, ...]]:
        text = queries.statement(
            template, self._scope.relation(), args=self._args, is_whole=is_whole
        )
        return iter(self._trace.stream_sql(text).rows)

    def _write_of_ranks(self, name: str, template: str, place: int) -> None:
        for trace_id, rows in groupby(self._rows(template), lambda row: row[0]):
            track = self._writer.track(name, self._ranks[trace_id], place)
            for row in rows:
                self._writer.slice(track, Slice(*row[1:]))
            self._writer.finish(track)

    # Devices

    def _find_devices(self) -> None:
        places: dict[int, int] = {}
        for trace_id, device, product in self._rows(queries.DEVICES):
            places[trace_id] = place = places.get(trace_id, _DEVICES_PLACE - 1) + 1
            name = "cpu" if device == "cpu" else f"device {device}"
            if product:
                name += f" · {product}"
            group = self._writer.group(name, self._ranks[trace_id], place)
            self._devices[trace_id, device] = group

    def _device(self, trace_id: int, device: str) -> int:
        group = self._devices.get((trace_id, device))
        if group is None:
            name = f"device {device}"
            group = self._writer.group(name, self._ranks[trace_id], _HOST_PLACE - 1)
            self._devices[trace_id, device] = group
        return group

    def _write_collectives(self) -> None:
        for (trace_id, device), rows in groupby(
            self._rows(queries.COLLECTIVES), lambda row: row[:2]
        ):
            group = self._device(trace_id, device)
            lanes = _FlatTracks(self._writer, "collectives", group, _COLLECTIVES_PLACE)
            for _, pieces in groupby(rows, lambda row: row[2]):
                lanes.write([Slice(*piece[3:]) for piece in pieces])
            lanes.finish()

    # Threads and streams

    def _find_threads(self) -> None:
        processes: dict[tuple[int, int], int] = {}
        for row in self._rows(queries.THREADS):
            trace_id, pid, tid, pid_text, tid_text, process, labels, name, device = row
            pid_text, tid_text = (
                (str(number) if text is None else text).strip() or "(unnamed)"
                for number, text in ((pid, pid_text), (tid, tid_text))
            )
            name = (name or f"thread {tid_text}").strip()
            about = f"process {pid_text}, thread {tid_text}"
            if device is not None:
                group = self._device(trace_id, device)
                if not name.startswith("stream"):
                    name = f"stream {tid_text}"
                place = _STREAMS_PLACE + 2 * len(self._threads)
            else:
                group = processes.get((trace_id, pid), 0)
                if not group:
                    title = " ".join(text for text in ((process or "").strip(), pid_text) if text)
                    if labels:
                        title += f" ({labels})"
                    place = _HOST_PLACE + len(processes)
                    group = self._writer.group(title, self._ranks[trace_id], place)
                    processes[trace_id, pid] = group
                place = 1 + len(self._threads)
            self._threads[trace_id, pid, tid] = _Thread(
                self._writer, name, group, place, about, device is not None
            )

    def _write_events(self) -> None:
        count = 0
        for key, rows in groupby(self._rows(queries.EVENTS), lambda row: row[:3]):
            thread = self._threads[key]
            if thread.is_stream:
                work = thread.work()
                for row in rows:
                    count += 1
                    # Facts are those of work on the device; the rest is ranges and waits.
                    if row[10] is not None:
                        work.write([Slice(*row[3:])])
                    else:
                        self._writer.slice(thread.spans(), Slice(*row[3:]))
                work.finish()
            else:
                track, write = thread.spans(), self._writer.slice
                for row in rows:
                    count += 1
                    write(track, Slice(*row[3:]))
            thread.finish()
        self.event_count = count

    def _write_instants(self) -> None:
        for key, rows in groupby(self._rows(queries.INSTANTS), lambda row: row[:3]):
            track = self._threads[key].spans()
            for row in rows:
                self.instant_count += 1
                self._writer.instant(track, Slice(*row[3:]))

    # Counters and requests

    def _write_counters(self) -> None:
        place = _COUNTERS_PLACE
        for (trace_id, device, name, unit), rows in groupby(
            self._rows(queries.COUNTERS), lambda row: row[:4]
        ):
            group = self._ranks[trace_id] if device is None else self._device(trace_id, device)
            place += 1
            counter = self._writer.counter(name, group, place, unit)
            for row in rows:
                self._writer.value(counter, row[4], row[5])

    def _write_requests(self) -> None:
        is_whole = all(part.from_ns < 0 for part in self._scope.parts)
        rows = self._rows(queries.REQUESTS, is_whole=is_whole)
        for run_id, of_run in groupby(rows, lambda row: row[0]):
            group = self._writer.group(f"requests · {run_id}", 0, 1 + len(self._ranks))
            lanes = _FlatTracks(self._writer, "requests", group, 1)
            for _, pieces in groupby(of_run, lambda row: row[1]):
                lanes.write([Slice(*piece[2:]) for piece in pieces])
            lanes.finish()


class _FlatTracks:
    """Tracks side by side for things that must not nest, each with what is inside of it."""

    def __init__(self, writer: Writer, name: str, group: int, place: int, about: str = "") -> None:
        self._writer = writer
        self._track = (name, group, place, about)
        self._lanes = FlatLanes()
        self._tracks: list[Any] = []

    def write(self, slices: list[Slice]) -> None:
        """Write the next thing: its slice, and those inside of it."""
        whole = slices[0]
        lane = self._lanes.place(whole.start_ns, whole.start_ns + whole.dur_ns)
        if lane == len(self._tracks):
            self._tracks.append(self._writer.track(*self._track))
        for one in slices:
            self._writer.slice(self._tracks[lane], one)

    def finish(self) -> None:
        """Say that nothing more comes."""
        for track in self._tracks:
            self._writer.finish(track)


class _Thread:
    """A thread or stream: its tracks come into being when something is on them."""

    def __init__(
        self, writer: Writer, name: str, group: int, place: int, about: str, is_stream: bool
    ) -> None:
        self._writer = writer
        self._place = (name, group, place, about)
        self._spans: Any = None
        self.is_stream = is_stream

    def spans(self) -> Any:
        """Return the track of what may nest; of a stream, of what is not work."""
        if self._spans is None:
            name, group, place, about = self._place
            if self.is_stream:
                name, place = f"{name} · ranges and waits", place - 1
            self._spans = self._writer.track(name, group, place, about)
        return self._spans

    def work(self) -> _FlatTracks:
        """Return the tracks of the stream's work, of which none is inside of another."""
        name, group, place, about = self._place
        return _FlatTracks(self._writer, name, group, place, about)

    def finish(self) -> None:
        """Say that no more slices come; marks may."""
        if self._spans is not None:
            self._writer.finish(self._spans)
