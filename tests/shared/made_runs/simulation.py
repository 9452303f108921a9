"""Simulates the programs of all ranks in one true time."""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from made_runs.faults import Faults
from made_runs.layout import Group, Layout
from made_runs.step import Collective, Op, Pass, Work


@dataclass(slots=True)
class Done:
    """An op of one rank with its times, and its group and sequence number if it is a collective."""

    op: Op
    start_ns: int
    end_ns: int
    group: Group | None = None
    seq: int = 0
    peer: int | None = None
    in_nelems: int = 0
    out_nelems: int = 0


@dataclass
class Truth:
    """The ground truth of a run.

    Attributes:
        waits: by group and Seq, the wait of each rank, ns. Sends and receives between stages are
            under ``sender>receiver`` and their number.
        last: by group and Seq, the last rank to arrive.
        transfers: by group and Seq, the duration after the last arrival, ns.
        work_ns: by rank, its own work, ns.
        waited_ns: by rank, its total wait for others, ns.
        step_starts_ns: by rank, the true start of each step, and the end of the last one, ns.
        received: by rank, the elements that its experts received in all-to-alls.
        clock_ns: by rank, the offset of its clock, ns.
    """

    waits: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    last: dict[tuple[str, int], int] = field(default_factory=dict)
    transfers: dict[tuple[str, int], int] = field(default_factory=dict)
    work_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    waited_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    step_starts_ns: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    received: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    clock_ns: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Meeting:
    """A collective at which some ranks have arrived."""

    arrived: dict[int, Done] = field(default_factory=dict)


class Simulation:
    """All ranks of a run.

    Args:
        layout: ranks and groups.
        faults: deviations of single ranks.
        programs: by rank, its ops step by step.
        begin_ns: when the first step begins, ns.
    """

    def __init__(
        self,
        layout: Layout,
        faults: Faults,
        programs: Callable[[int], Sequence[Sequence[Op]]],
        begin_ns: int = 0,
    ) -> None:
        self.layout, self.faults = layout, faults
        self.truth = Truth(clock_ns=dict(faults.clock_ns))
        ranks = range(layout.world_size)
        self.done: list[list[Done]] = [[] for _ in ranks]
        # Ranks of one pipeline stage share a program.
        by_stage: dict[int, list[Op | None]] = {}
        self._programs = []
        for rank in ranks:
            stage = layout.place(rank)[2]
            if stage not in by_stage:
                by_stage[stage] = [op for step in programs(rank) for op in (*step, None)]
            self._programs.append(by_stage[stage])
        self._next = [0] * layout.world_size
        self._now = [begin_ns] * layout.world_size
        self._sequence: list[dict[str, int]] = [defaultdict(int) for _ in ranks]
        self._counted: list[dict[str, int]] = [defaultdict(int) for _ in ranks]
        self._late = {(x.rank, x.dimension, x.number): x.by_ns for x in faults.late}
        self._factor = [faults.work_factor(rank, layout.node(rank)) for rank in ranks]
        self._meetings: dict[tuple[str, int], _Meeting] = defaultdict(_Meeting)
        self._sent: dict[tuple[int, int, int], Done] = {}
        self._waiting_for: dict[tuple[int, int, int], Done] = {}
        self._random = random.Random(0)
        for rank in ranks:
            self.truth.step_starts_ns[rank].append(begin_ns)
        self._run()

    def _run(self) -> None:
        ready = list(range(self.layout.world_size))
        while ready:
            rank = ready.pop()
            ready += self._advance(rank)
        if any(at < len(own) for at, own in zip(self._next, self._programs, strict=True)):
            raise AssertionError("deadlock: the programs of the ranks wait for each other")

    def _advance(self, rank: int) -> list[int]:
        """Run a rank until it has to wait; return the ranks that can continue."""
        freed: list[int] = []
        program = self._programs[rank]
        while self._next[rank] < len(program):
            op = program[self._next[rank]]
            self._next[rank] += 1
            now = self._now[rank]
            if op is None:
                self.truth.step_starts_ns[rank].append(now)
            elif isinstance(op, Work):
                dur_ns = round(op.dur_ns * self._factor[rank])
                self._end(rank, Done(op, now, now + dur_ns))
                self.truth.work_ns[rank] += dur_ns
            elif isinstance(op, Collective):
                met = self._meet(rank, op)
                if met is None:
                    return freed
                freed += [other for other in met if other != rank]
            elif not self._pass(rank, op, freed):
                return freed
        return freed

    def _end(self, rank: int, done: Done) -> None:
        self.done[rank].append(done)
        self._now[rank] = done.end_ns

    def _arrival(self, rank: int, dimension: str) -> int:
        """Return the arrival time of a rank at a collective, including a planned delay."""
        number = self._counted[rank][dimension]
        self._counted[rank][dimension] += 1
        late_ns = self._late.get((rank, dimension, number), 0)
        if late_ns:
            now = self._now[rank]
            self._end(rank, Done(Work("late", "other", late_ns), now, now + late_ns))
            self.truth.work_ns[rank] += late_ns
        return self._now[rank]

    def _meet(self, rank: int, op: Collective) -> list[int] | None:
        """Let a rank arrive at a collective; return its ranks after the last arrival."""
        group = self.layout.groups_of[rank][op.dimension]
        arrival = self._arrival(rank, op.dimension)
        self._sequence[rank][group.name] += 1
        seq = self._sequence[rank][group.name]
        meeting = self._meetings[group.name, seq]
        meeting.arrived[rank] = Done(op, arrival, arrival, group, seq)
        if len(meeting.arrived) < len(group.ranks):
            return None
        del self._meetings[group.name, seq]
        transfer_ns = round(op.transfer_ns * self.faults.slow_links.get(group.name, 1.0))
        last_ns = max(done.start_ns for done in meeting.arrived.values())
        end_ns = last_ns + transfer_ns
        key = (group.name, seq)
        self.truth.transfers[key] = transfer_ns
        self.truth.last[key] = min(
            r for r, done in meeting.arrived.items() if done.start_ns == last_ns
        )
        waits = self.truth.waits[key] = {}
        for other, done in meeting.arrived.items():
            waits[other] = last_ns - done.start_ns
            self.truth.waited_ns[other] += waits[other]
            jitter = self.faults.end_jitter_ns
            done.end_ns = end_ns + (self._random.randrange(jitter + 1) if jitter else 0)
            done.in_nelems, done.out_nelems = self._sizes(op, group, other)
            self._end(other, done)
        return list(meeting.arrived)

    def _sizes(self, op: Collective, group: Group, rank: int) -> tuple[int, int]:
        """Return the input and output elements of a rank in a collective."""
        count = len(group.ranks)
        if op.kind == "allgather":
            return op.nelems // count, op.nelems // count * count
        if op.kind == "reducescatter":
            return op.nelems // count * count, op.nelems // count
        if op.kind == "alltoall":
            shares = self.faults.expert_shares or (1,) * count
            # All ranks send the same number; ranks with popular experts receive more.
            of_all = op.nelems * count
            got = of_all * shares[group.ranks.index(rank)] // sum(shares)
            if op.is_dispatch:
                self.truth.received[rank] += got
                return op.nelems, got
            return got, op.nelems
        return op.nelems, op.nelems

    def _pass(self, rank: int, op: Pass, freed: list[int]) -> bool:
        """Let a rank send or receive; return whether it can continue.

        A send ends when its bytes have left, a receive when they have arrived.
        """
        data, tensor, _ = self.layout.place(rank)
        peer = self.layout.rank(data, tensor, op.stage)
        group = self.layout.groups_of[rank]["pipeline"]
        pair = (rank, peer) if op.is_send else (peer, rank)
        name = f"{pair[0]}>{pair[1]}"
        self._sequence[rank][name] += 1
        number = self._sequence[rank][name]
        key = (*pair, number)
        link = self.faults.slow_links.get(name, self.faults.slow_links.get(group.name, 1.0))
        transfer_ns = round(op.transfer_ns * link)
        start_ns = self._arrival(rank, "pipeline")
        done = Done(op, start_ns, start_ns + transfer_ns, group, number, peer)
        done.in_nelems = done.out_nelems = op.nelems
        if op.is_send:
            self._end(rank, done)
            receive = self._waiting_for.pop(key, None)
            if receive is None:
                self._sent[key] = done
                return True
            self._receive(peer, receive, done, transfer_ns, name)
            freed.append(peer)
            return True
        send = self._sent.pop(key, None)
        if send is None:
            self._waiting_for[key] = done
            return False
        self._receive(rank, done, send, transfer_ns, name)
        return True

    def _receive(self, rank: int, done: Done, send: Done, transfer_ns: int, name: str) -> None:
        wait_ns = max(send.start_ns - done.start_ns, 0)
        done.end_ns = done.start_ns + wait_ns + transfer_ns
        key = (name, done.seq)
        self.truth.transfers[key] = transfer_ns
        self.truth.waits[key] = {rank: wait_ns}
        if wait_ns:
            self.truth.last[key] = done.peer if done.peer is not None else rank
        self.truth.waited_ns[rank] += wait_ns
        self._end(rank, done)
