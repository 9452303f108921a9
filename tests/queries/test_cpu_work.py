"""Every moment of a thread has one op, against a stack; small traces: tests/cases/cpu_work.case."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any, NamedTuple

from cases_as_ranks import AskedByRank, Cases


class Op(NamedTuple):
    tid: int
    start_us: int
    end_us: int
    name: str = "aten::mm"
    category: str = "cpu_op"

    @property
    def event(self) -> dict[str, Any]:
        return {
            "ph": "X",
            "cat": self.category,
            "name": self.name,
            "pid": 1,
            "tid": self.tid,
            "ts": self.start_us,
            "dur": self.end_us - self.start_us,
        }

    @property
    def is_collective(self) -> bool:
        return self.name.startswith("c10d::") or self.category == "user_annotation"

    @property
    def is_work(self) -> bool:
        return self.is_collective or (
            "::" in self.name and not self.name.startswith(("autograd::", "torch::autograd::"))
        )


CASES = Cases()
asked = CASES.fixture()


def add(ops: list[Op]) -> int:
    """Add a trace of some ops; return the number of its rank."""
    return CASES.add([op.event for op in ops])


def pieces(asked: AskedByRank, rank: int) -> list[tuple[int, int, int, int]]:
    """Return the pieces of the ops: op, piece, start and end in µs."""
    return [
        (event_id, piece, start_ns // 1000, (start_ns + dur_ns) // 1000)
        for event_id, piece, start_ns, dur_ns in asked.table(
            rank, "cpu_work", "event_id, piece, ts_ns, dur_ns"
        )
    ]


def by_stack(ops: list[Op]) -> dict[int, set[int]]:
    """The moments of each op of one thread, whose ops nest: of all that are open, the innermost."""
    owned: dict[int, set[int]] = defaultdict(set)
    # Of equal ones a range is outside of an op, and of ops without a number the name decides.
    order = sorted(range(len(ops)), key=lambda at: ops[at].name, reverse=True)
    order.sort(key=lambda at: (ops[at].start_us, -ops[at].end_us, ops[at].category == "cpu_op"))
    for now in range(min(op.start_us for op in ops), max(op.end_us for op in ops)):
        stack: list[int] = []
        for at in order:
            inside_collective = bool(stack) and ops[stack[-1]].is_collective
            if ops[at].start_us <= now < ops[at].end_us and not inside_collective:
                stack.append(at)
        if stack and ops[stack[-1]].is_work:
            owned[stack[-1]].add(now)
    return owned


def nested(chance: random.Random, tid: int) -> list[Op]:
    """Ops of one thread that nest cleanly, collectives and nodes of autograd among them."""
    names = ["aten::mm", "aten::add", "autograd::engine::evaluate_function: X", "MyRange"]
    names += ["torch::autograd::AccumulateGrad", "c10d::allreduce_", "aten::to"]
    ops: list[Op] = []

    def put(start: int, end: int, depth: int) -> None:
        while start < end and depth < 5:
            begin = chance.randint(start, end)
            stop = chance.randint(begin, end)
            if chance.random() < 0.25:
                begin, stop = start, end
            is_gloo = chance.random() < 0.1
            name = "gloo:all_reduce" if is_gloo else chance.choice(names)
            ops.append(Op(tid, begin, stop, name, "user_annotation" if is_gloo else "cpu_op"))
            put(begin, stop, depth + 1)
            start = stop + chance.randint(0, 3)

    put(0, chance.randint(1, 40), 0)
    return ops


def nested_threads() -> list[list[Op]]:
    chance = random.Random(11)
    return [nested(chance, tid) for tid in range(120)]


THREADS = nested_threads()
NESTED = add([op for thread in THREADS for op in thread])


def test_every_moment_has_the_innermost_op(asked: AskedByRank) -> None:
    found: dict[int, set[int]] = defaultdict(set)
    for at, _, start, end in pieces(asked, NESTED):
        moments = set(range(start, end))
        assert moments
        assert not moments & found[at]
        found[at] |= moments
    first = 0
    for thread in THREADS:
        if thread:
            expected = by_stack(thread)
            here = {
                at - first: found[at] for at in range(first, first + len(thread)) if at in found
            }
            assert here == expected, thread
        first += len(thread)


def crossing() -> list[Op]:
    chance = random.Random(5)
    ops = []
    for tid in range(150):
        for _ in range(chance.randint(1, 12)):
            start = chance.randint(0, 30)
            name = chance.choice(["aten::mm"] * 4 + ["c10d::allreduce_"])
            ops.append(Op(tid, start, start + chance.randint(0, 12), name))
    return ops


CROSSING = add(crossing())


def test_ops_that_do_not_nest_lose_nothing(asked: AskedByRank) -> None:
    """Rounding makes children end after their parents: no moment is lost, none counts twice."""
    ops = crossing()
    found: list[tuple[int, int]] = []
    for at, _, start, end in pieces(asked, CROSSING):
        found += [(ops[at].tid, now) for now in range(start, end)]
    assert len(set(found)) == len(found)
    assert set(found) == {(op.tid, now) for op in ops for now in range(op.start_us, op.end_us)}
