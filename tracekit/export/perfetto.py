"""Export of traces for Perfetto, with tracekit's attribution as tracks.

Each rank has its steps, then for each device tracekit's attribution, streams, and counters, and
then the host threads. Serving requests are a separate group.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from msgspec import Struct

from tracekit.export import scene_queries as queries
from tracekit.export.packets import PacketWriter, Row
from tracekit.export.selection import Scope, Selection, scope_of
from tracekit.export.staging import (
    Block,
    arrows_left_out,
    blocks_of,
    has_path,
    staged,
    with_ends,
)
from tracekit.trace import Trace

_ATTRIBUTION = (
    (1, "timeline", queries.TIMELINE),
    (2, "phases", queries.PHASES),
    (3, "modules", queries.MODULES),
    (5, "steps", queries.DEVICE_STEPS),
)

_GAPS_PLACE, _COLLECTIVES_PLACE, _STREAMS_PLACE, _COUNTERS_PLACE = 4, 6, 100, 100_000
_DEVICES_PLACE, _HOST_PLACE = 10, 1_000
_QUEUES_PLACE = 1_000_000_000

_Runs = Generator[tuple[Row, Iterable[Row]]]


def runs_of(
    trace: Trace, statements: Iterable[str], key_count: int
) -> Generator[tuple[Row, Iterable[Row]]]:
    """Run statements sequentially; group consecutive rows of each by the first columns.

    No other query may run on the store until the generator ends.
    """
    key = itemgetter(slice(key_count))
    for statement in statements:
        yield from groupby(trace.stream_sql(statement).rows, key)


class Tracks:
    def __init__(
        self, trace: Trace, scope: Scope, writer: PacketWriter, *, args: bool = True
    ) -> None:
        self._trace = trace
        self._scope = scope
        self._writer = writer
        self._args = args
        # Closes partially read results, because they would block other queries.
        self._staged = contextlib.ExitStack()
        self._ranks: dict[int, int] = {}
        self._devices: dict[tuple[int, str], int] = {}
        self._threads: dict[tuple[int, int, int], _Thread] = {}
        self.event_count = 0
        self.left_out_arrow_count = 0
        self.has_no_path = False

    def write(self) -> None:
        with staged(self._trace, self._scope) as self.has_no_path, self._staged:
            self.left_out_arrow_count = arrows_left_out(self._trace)
            self._write()

    def _write(self) -> None:
        writer = self._writer
        # Compute the blocks first, because no other query may run while rows are read.
        blocks = [*blocks_of(self._trace, self._scope)]
        for place, part in enumerate(self._scope.parts, start=1):
            self._ranks[part.trace_id] = writer.group(part.name, 0, place, part.about)
        self._write_of_ranks("steps", queries.HOST_STEPS, 1)
        self._write_of_ranks("serving steps", queries.SERVING_STEPS, 2)
        if has_path(self._trace):
            self._write_of_ranks("critical path", queries.PATH, 3)
        self._find_devices()
        for place, name, template in _ATTRIBUTION:
            for (trace_id, device), rows in self._runs(template, 2):
                self._write_track(name, self._device(trace_id, device), place, rows, 2)
        self._write_gaps(blocks)
        self._write_collectives()
        self._find_threads()
        self._write_events(blocks)
        self._write_instants()
        self._write_counters()
        if self._scope.is_since_epoch:
            self._write_requests()
        writer.close()

    def _rows(self, template: str) -> Iterator[Row]:
        text = queries.statement(template, self._scope)
        return iter(self._trace.stream_sql(text).rows)

    def _runs(self, template: str, key_count: int, *, is_whole: bool = True) -> _Runs:
        text = queries.statement(template, self._scope, args=self._args, is_whole=is_whole)
        return self._runs_of([text], key_count)

    def _runs_of(self, statements: Iterable[str], key_count: int) -> _Runs:
        runs = runs_of(self._trace, statements, key_count)
        return self._staged.enter_context(contextlib.closing(runs))

    def _runs_of_blocks(self, template: str, blocks: list[Block], key_count: int) -> _Runs:
        return self._runs_of(
            (queries.block_statement(template, block, args=self._args) for block in blocks),
            key_count,
        )

    def _write_track(
        self,
        name: str,
        group: int,
        place: int,
        rows: Iterable[Row],
        skip: int,
        *,
        is_flat: bool = False,
    ) -> None:
        track = self._writer.track(name, group, place, is_flat=is_flat)
        self._writer.slices(track, rows, skip)
        self._writer.finish(track)

    def _write_of_ranks(self, name: str, template: str, place: int) -> None:
        for (trace_id,), rows in self._runs(template, 1):
            self._write_track(name, self._ranks[trace_id], place, rows, 1)

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

    def _write_gaps(self, blocks: list[Block]) -> None:
        tracks: dict[tuple[int, str], Any] = {}
        for key, rows in self._runs_of_blocks(queries.GAPS, with_ends(blocks), 2):
            if key not in tracks:
                group = self._device(*key)
                tracks[key] = self._writer.track("idle causes", group, _GAPS_PLACE)
            self._writer.slices(tracks[key], rows, 2)
        for track in tracks.values():
            self._writer.finish(track)

    def _write_collectives(self) -> None:
        for (trace_id, device), rows in self._runs(queries.COLLECTIVES, 2):
            group = self._device(trace_id, device)
            self._write_track("collectives", group, _COLLECTIVES_PLACE, rows, 3, is_flat=True)

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
                    title = f"{(process or '').strip() or 'process'} {pid_text}"
                    if labels:
                        title += f" ({labels})"
                    place = _HOST_PLACE + len(processes)
                    group = self._writer.group(title, self._ranks[trace_id], place)
                    processes[trace_id, pid] = group
                place = 1 + len(self._threads)
            self._threads[trace_id, pid, tid] = _Thread(
                self._writer, name, group, place, about, device is not None
            )

    def _write_events(self, blocks: list[Block]) -> None:
        for key, rows in self._runs_of_blocks(queries.EVENTS, blocks, 4):
            thread = self._threads[key[:3]]
            track = thread.work() if key[3] and thread.is_stream else thread.spans()
            self.event_count += self._writer.slices(track, rows, 4)
        for thread in self._threads.values():
            thread.finish()

    def _write_instants(self) -> None:
        for key, rows in self._runs(queries.INSTANTS, 3):
            self._writer.instants(self._threads[key].spans(), rows, 3)

    # Counters and requests

    def _write_counters(self) -> None:
        place = _COUNTERS_PLACE
        for (trace_id, device, name, unit), rows in self._runs(queries.COUNTERS, 4):
            group = self._ranks[trace_id] if device is None else self._device(trace_id, device)
            place += 1
            rank = _queue_rank(name) or place
            self._writer.values(self._writer.counter(name, group, rank, unit), rows, 4)

    def _write_requests(self) -> None:
        is_whole = all(part.from_ns < 0 for part in self._scope.parts)
        for (run_id,), of_run in self._runs(queries.REQUESTS, 1, is_whole=is_whole):
            group = self._writer.group(f"requests · {run_id}", 0, 1 + len(self._ranks))
            self._write_track("requests", group, 1, of_run, 2, is_flat=True)


def _queue_rank(name: str) -> int | None:
    """Return the stream number of a queue length counter as sort key; None for other counters.

    Sorting the rows by it in SQL would exceed DuckDB's memory.
    """
    of_queue, _, number = name.rpartition(" ")
    is_numbered = of_queue == "queue length of stream" and number.isdecimal()
    return _QUEUES_PLACE + min(int(number[:18]), _QUEUES_PLACE) if is_numbered else None


class _Thread:
    """A thread or stream, whose tracks are created when their first slice is written."""

    def __init__(
        self, writer: PacketWriter, name: str, group: int, place: int, about: str, is_stream: bool
    ) -> None:
        self._writer = writer
        self._place = (name, group, place, about)
        self._spans: Any = None
        self._work: Any = None
        self.is_stream = is_stream

    def spans(self) -> Any:
        """Return the track of nested spans; for a stream, of everything except GPU work."""
        if self._spans is None:
            name, group, place, about = self._place
            if self.is_stream:
                name, place = f"{name} · ranges and waits", place - 1
            self._spans = self._writer.track(name, group, place, about)
        return self._spans

    def work(self) -> Any:
        if self._work is None:
            self._work = self._writer.track(*self._place, is_flat=True)
        return self._work

    def finish(self) -> None:
        """End all slices of the tracks. Marks may still follow."""
        for track in (self._spans, self._work):
            if track is not None:
                self._writer.finish(track)


class Exported(Struct, frozen=True):
    """Counts of an export: events of the trace files, and slices including attribution."""

    trace_count: int
    event_count: int
    slice_count: int
    notes: list[str]


def export_perfetto(
    trace: Trace,
    write: Callable[[bytes], object],
    selection: Selection | None = None,
    *,
    args: bool = True,
) -> Exported:
    scope = scope_of(trace, selection or Selection())
    writer = PacketWriter(write)
    tracks = Tracks(trace, scope, writer, args=args)
    tracks.write()
    notes = [*scope.notes]
    if tracks.has_no_path:
        notes.append("the critical path is omitted: the trace has too much device work for it")
    if tracks.left_out_arrow_count:
        notes.append(
            f"{tracks.left_out_arrow_count:,} arrows to events outside the selection are omitted"
        )
    return Exported(len(scope.parts), tracks.event_count, writer.slice_count, notes)
