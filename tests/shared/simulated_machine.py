"""Simulated machine with known dependencies: hosts, streams, and collectives, event by event.

It is the ground truth for predictions: after a change of a knob, everything is simulated again.
Times are integer nanoseconds of one clock. `simulate(Machine())` returns the events, and `write`
writes a trace per rank as Kineto would.
"""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import traces_by_hand
from simulated_program import (
    Backward,
    Busy,
    Launch,
    Machine,
    NextBatch,
    Record,
    Span,
    Synchronise,
    Training,
    Wait,
)

MAIN_THREAD, AUTOGRAD_THREAD = 1, 2
DEVICE_CATEGORIES = frozenset({"kernel", "gpu_memcpy"})
_EPOCH_NS = 5_000_000_000


# -- discrete-event simulation: processes that wait for times and for each other -------------------


@dataclass(eq=False, slots=True)
class Signal:
    """An event that happens once."""

    at_ns: int | None = None
    waiting: list[tuple[Generator, int]] = field(default_factory=list)


class Clock:
    """Runs processes in the order of their times.

    A process is a generator. It yields the time (ns) or signal that it waits for, or a tuple of
    which the first wakes it.
    """

    def __init__(self):
        self.now_ns = 0
        self._agenda = []
        self._wakings = {}
        self._count = 0

    def start(self, process):
        self._wakings[process] = 0
        self._wake(process, 0, self.now_ns)

    def fire(self, signal):
        signal.at_ns = self.now_ns
        for process, waking in signal.waiting:
            self._wake(process, waking, self.now_ns)

    def run(self):
        while self._agenda:
            self.now_ns, _, process, waking = heapq.heappop(self._agenda)
            # A process that waits for several signals was already resumed by the first.
            if self._wakings.get(process) == waking:
                self._resume(process, waking + 1)

    def _wake(self, process, waking, at_ns):
        # Simultaneous events run in the order in which they were scheduled.
        self._count += 1
        heapq.heappush(self._agenda, (at_ns, self._count, process, waking))

    def _resume(self, process, waking):
        try:
            wish = next(process)
        except StopIteration:
            del self._wakings[process]
            return
        self._wakings[process] = waking
        for reason in wish if isinstance(wish, tuple) else (wish,):
            if isinstance(reason, int):
                self._wake(process, waking, max(reason, self.now_ns))
            elif reason.at_ns is not None:
                self._wake(process, waking, self.now_ns)
            else:
                reason.waiting.append((process, waking))


# -- the machine -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Row:
    """An event of the trace; a device event's tid is its stream."""

    category: str
    name: str
    start_ns: int
    end_ns: int
    tid: int
    args: dict[str, Any]

    @property
    def is_work(self):
        return self.category in DEVICE_CATEGORIES


@dataclass(eq=False, slots=True)
class Rendezvous:
    """A collective: all ranks end it together, its transfer after the last one came."""

    missing: int
    complete: Signal = field(default_factory=Signal)


class Stream:
    """Work of a device, one after the other."""

    def __init__(self, rank):
        self.rank = rank
        self.items = deque()
        self.is_idle, self.filled = True, Signal()
        self.free_ns = None  # end of the previous work; None before the first

    def put(self, item):
        self.items.append(item)
        self.is_idle = False
        self.rank.clock.fire(self.filled)

    def run(self):
        while True:
            self.is_idle = not self.items
            if self.is_idle:
                self.filled = Signal()
                yield self.filled
            yield from self.items.popleft()

    def record(self, event):
        self.rank.clock.fire(event)
        yield self.rank.clock.now_ns

    def wait(self, event):
        yield event
        yield event.at_ns + self.rank.machine.event_latency_ns

    def work(self, work, ready_ns, row, done):
        clock, device = self.rank.clock, self.rank
        free_ns = 0 if self.free_ns is None else self.free_ns + work.gap_ns
        yield max(ready_ns, free_ns)
        row.start_ns = clock.now_ns
        if work.collective is not None:
            yield from device.transfer(work)
        elif work.category == "kernel" and device.machine.contention_pct:
            yield from device.compute(work.ns)
        else:
            yield clock.now_ns + work.ns
        row.end_ns = self.free_ns = clock.now_ns
        clock.fire(done)


class Rank:
    """A process and its device."""

    def __init__(self, machine, rank, clock, meetings):
        self.machine, self.rank, self.clock, self.meetings = machine, rank, clock, meetings
        self.rows = []
        self.streams = {}
        self.events = {}
        self._correlation = self._external_id = 0
        self._ops = {MAIN_THREAD: [], AUTOGRAD_THREAD: []}
        self._communicating_count = 0
        self._communication_changed = Signal()
        count = machine.steps
        self._batch_ready = [Signal() for _ in range(count)]
        self._batch_taken = [Signal() for _ in range(count)]

    def run(self):
        spans = tuple(Training(self.machine, self.rank).steps())
        if self.machine.load_workers:
            batches = [
                batch for span in spans for batch in span.inside if isinstance(batch, NextBatch)
            ]
            for worker in range(self.machine.load_workers):
                self.clock.start(self._worker(batches[worker :: self.machine.load_workers]))
        for span in spans:
            yield from self._act(span, MAIN_THREAD)

    # -- device ------------------------------------------------------------------------------------

    def stream(self, number):
        if number not in self.streams:
            self.streams[number] = stream = Stream(self)
            self.clock.start(stream.run())
        return self.streams[number]

    def compute(self, work_ns):
        """Take work_ns, or so much longer while the device communicates."""
        alone, shared = 100 + self.machine.contention_pct, 100
        left = work_ns * alone
        while left > 0:
            rate = shared if self._communicating_count else alone
            began_ns = self.clock.now_ns
            yield (began_ns + (left + rate - 1) // rate, self._communication_changed)
            left -= (self.clock.now_ns - began_ns) * rate

    def transfer(self, work):
        meeting = self.meetings.setdefault(work.collective, Rendezvous(self.machine.ranks))
        self._communicate(1)
        meeting.missing -= 1
        if not meeting.missing:
            self.clock.fire(meeting.complete)
        yield meeting.complete
        yield meeting.complete.at_ns + work.ns
        self._communicate(-1)

    def _communicate(self, change):
        self._communicating_count += change
        changed, self._communication_changed = self._communication_changed, Signal()
        self.clock.fire(changed)

    # -- host --------------------------------------------------------------------------------------

    def _act(self, action, tid):
        clock = self.clock
        match action:
            case Busy(ns):
                yield clock.now_ns + ns
            case Span():
                yield from self._span(action, tid)
            case Launch():
                yield from self._launch(action, tid)
            case Record(event, stream, call_ns):
                signal = Signal()
                row = self._call("cudaEventRecord", tid)
                self.events[event] = (signal, stream, row.args["correlation"])
                self.stream(stream).put(self.stream(stream).record(signal))
                yield clock.now_ns + call_ns
                row.end_ns = clock.now_ns
            case Wait(event, stream, call_ns):
                signal, recorded_on, correlation = self.events[event]
                row = self._call("cudaStreamWaitEvent", tid)
                self.stream(stream).put(self.stream(stream).wait(signal))
                yield clock.now_ns + call_ns
                row.end_ns = clock.now_ns
                self._synchronised("Stream Wait Event", row, stream, recorded_on, correlation)
            case Synchronise():
                yield from self._synchronise(action, tid)
            case Backward(inside, there_ns, back_ns):
                done = Signal()
                yield clock.now_ns + there_ns
                clock.start(self._autograd(inside, done))
                yield done
                yield clock.now_ns + back_ns
            case NextBatch():
                yield from self._next_batch(action, tid)

    def _autograd(self, inside, done):
        for action in inside:
            yield from self._act(action, AUTOGRAD_THREAD)
        self.clock.fire(done)

    def _span(self, span, tid):
        args = dict(span.args)
        self._external_id += 1
        args["External id"] = self._external_id
        self._ops[tid].append(self._external_id)
        row = self._row(span.category, span.name, tid, args)
        for action in span.inside:
            yield from self._act(action, tid)
        row.end_ns = self.clock.now_ns
        self._ops[tid].pop()

    def _launch(self, launch, tid):
        clock, machine = self.clock, self.machine
        row = self._call(launch.call, tid)
        began_ns = clock.now_ns
        stream = self.stream(launch.work[0].stream)
        done = Signal()
        for number, work in enumerate(launch.work):
            place = {"device": self.rank, "context": 1, "stream": work.stream}
            if work.category == "kernel":
                place |= {"grid": [132, 1, 1], "block": [256, 1, 1]}
            link = {key: row.args[key] for key in ("External id", "correlation")}
            event = self._row(work.category, work.name, work.stream, {**place, **link, **work.args})
            if launch.graph is not None:
                event.args |= {"graph id": launch.graph, "graph node id": number + 1}
            done = Signal()
            ready_ns = clock.now_ns + launch.latency_ns
            stream.put(stream.work(work, ready_ns, event, done))
        yield began_ns + launch.call_ns
        if launch.waits and machine.host_waits:
            yield from self._wait_for([done])
        row.end_ns = clock.now_ns

    def _synchronise(self, action, tid):
        number = -1 if action.stream is None else action.stream
        name = "cudaDeviceSynchronize" if number < 0 else "cudaStreamSynchronize"
        kind = "Context Sync" if number < 0 else "Stream Sync"
        waited_for = self.streams if number < 0 else [number]
        signals = [self._mark(self.stream(stream)) for stream in waited_for]
        row = self._call(name, tid)
        pending = [signal for signal in signals if signal.at_ns is None]
        yield self.clock.now_ns + action.call_ns
        if pending and self.machine.host_waits:
            yield from self._wait_for(pending)
        row.end_ns = self.clock.now_ns
        self._synchronised(kind, row, number)

    def _mark(self, stream):
        """Return the signal of the current end of a stream."""
        signal = Signal()
        if stream.is_idle:
            signal.at_ns = self.clock.now_ns
        else:
            stream.put(stream.record(signal))
        return signal

    def _wait_for(self, signals):
        """Wait for signals that are not over; returning to the host takes additional time."""
        ends_ns = []
        for signal in signals:
            yield signal
            ends_ns.append(signal.at_ns)
        yield max(ends_ns) + self.machine.wake_ns

    def _next_batch(self, batch, tid):
        has_workers = self.machine.load_workers > 0
        kind = "_MultiProcessingDataLoaderIter" if has_workers else "_SingleProcessDataLoaderIter"
        self._external_id += 1
        name = f"enumerate(DataLoader)#{kind}.__next__"
        row = self._row("user_annotation", name, tid, {"External id": self._external_id})
        if has_workers:
            yield self._batch_ready[batch.number]
            self.clock.fire(self._batch_taken[batch.number])
        yield self.clock.now_ns + (batch.take_ns if has_workers else batch.load_ns)
        row.end_ns = self.clock.now_ns

    def _worker(self, batches):
        ahead = self.machine.load_workers * 2
        for batch in batches:
            if batch.number >= ahead:
                yield self._batch_taken[batch.number - ahead]
            yield self.clock.now_ns + batch.load_ns
            self.clock.fire(self._batch_ready[batch.number])

    # -- rows --------------------------------------------------------------------------------------

    def _row(self, category, name, tid, args):
        row = Row(category, name, self.clock.now_ns, self.clock.now_ns, tid, args)
        self.rows.append(row)
        return row

    def _call(self, name, tid):
        self._correlation += 1
        # Outside ops, Kineto uses the correlation of a call as its External id.
        op = self._ops[tid][-1] if self._ops[tid] else self._correlation
        link = {"External id": op, "correlation": self._correlation}
        return self._row("cuda_runtime", name, tid, link)

    def _synchronised(self, kind, call, stream, *recorded):
        """Add the row of category cuda_sync that Kineto writes for a call."""
        if not self.machine.has_event_rows:
            return
        args = {
            "cuda_sync_kind": kind, "stream": stream % 2**32, "device": self.rank, "context": 1,
            "correlation": call.args["correlation"], "External id": call.args["External id"],
        }  # fmt: skip
        if recorded:
            args["wait_on_stream"], args["wait_on_cuda_event_record_corr_id"] = recorded
            args["wait_on_cuda_event_id"] = recorded[1]
        row = self._row("cuda_sync", kind, stream, args)
        row.start_ns, row.end_ns = call.start_ns, call.end_ns


@dataclass(frozen=True, slots=True)
class Simulation:
    """Events of each rank, with times on the machine's clock, ns."""

    machine: Machine
    ranks: list[list[Row]]

    @property
    def window_ns(self):
        """The time from the first start of a device event to the last end of one, of all ranks."""
        work = [row for rows in self.ranks for row in rows if row.is_work]
        return max(row.end_ns for row in work) - min(row.start_ns for row in work)

    def document(self, rank):
        """Return the trace of a rank as Kineto writes it, on the rank's clock."""
        machine, pid = self.machine, 1_000 + rank
        world = list(range(machine.ranks))
        group = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl"}
        info = {"backend": "nccl", "rank": rank, "world_size": machine.ranks, "pg_count": 1}
        info["pg_config"] = [{**group, "pg_size": machine.ranks, "ranks": world}]
        base_ns = _EPOCH_NS + rank * machine.clock_offset_ns
        events = [
            *traces_by_hand.process(pid, "python", "CPU"),
            *traces_by_hand.process(rank, "python", f"GPU {rank}"),
        ]
        for row in self.ranks[rank]:
            is_on_device = row.is_work or row.category == "cuda_sync"
            events.append(
                {
                    "ph": "X",
                    "cat": row.category,
                    "name": row.name,
                    "pid": rank if is_on_device else pid,
                    "tid": row.tid if is_on_device else pid + row.tid - MAIN_THREAD,
                    # So small that a double is written with the three decimals that it has.
                    "ts": (base_ns + row.start_ns) / 1000,
                    "dur": (row.end_ns - row.start_ns) / 1000,
                    "args": row.args,
                }
            )
        device = {"id": rank, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000}
        return {
            "schemaVersion": 1,
            "deviceProperties": [device],
            "distributedInfo": info,
            "traceEvents": events,
        }

    def write(self, folder):
        """Write the traces of all ranks into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for rank in range(self.machine.ranks):
            (folder / f"rank{rank}.json").write_text(json.dumps(self.document(rank)), "utf-8")


def simulate(machine):
    """Run a machine's program to its end."""
    clock, meetings = Clock(), {}
    ranks = [Rank(machine, rank, clock, meetings) for rank in range(machine.ranks)]
    for rank in ranks:
        clock.start(rank.run())
    clock.run()
    return Simulation(machine, [rank.rows for rank in ranks])
