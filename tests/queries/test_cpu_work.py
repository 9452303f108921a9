"""In a trace without an accelerator, every moment of a thread belongs to one op."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tracekit

Write = Callable[..., Path]


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


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def pieces(tiny_trace: Write) -> Callable[[list[Op]], list[tuple[int, int, int, int]]]:
    """Return a function that gives the pieces of ops: op, piece, start and end in µs."""

    def of(ops: list[Op]) -> list[tuple[int, int, int, int]]:
        with tracekit.open(tiny_trace([op.event for op in ops]), cache=False) as trace:
            return [
                (event_id, piece, start_ns // 1000, (start_ns + dur_ns) // 1000)
                for event_id, piece, start_ns, dur_ns in trace.sql(
                    "SELECT event_id, piece, ts_ns, dur_ns FROM cpu_work ORDER BY ALL"
                ).rows
            ]

    return of


def by_stack(ops: list[Op]) -> dict[int, set[int]]:
    """The moments of each op of one thread, whose ops nest: of all that are open, the innermost."""
    owned: dict[int, set[int]] = defaultdict(set)
    order = sorted(range(len(ops)), key=lambda at: (ops[at].start_us, -ops[at].end_us, at))
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


def test_every_moment_has_the_innermost_op(
    pieces: Callable[[list[Op]], list[tuple[int, int, int, int]]],
) -> None:
    chance = random.Random(11)
    threads = [nested(chance, tid) for tid in range(120)]
    ops = [op for thread in threads for op in thread]
    found: dict[int, set[int]] = defaultdict(set)
    for at, _, start, end in pieces(ops):
        moments = set(range(start, end))
        assert moments
        assert not moments & found[at]
        found[at] |= moments
    first = 0
    for thread in threads:
        if thread:
            expected = by_stack(thread)
            here = {
                at - first: found[at] for at in range(first, first + len(thread)) if at in found
            }
            assert here == expected, thread
        first += len(thread)


def test_ops_that_do_not_nest_lose_nothing(
    pieces: Callable[[list[Op]], list[tuple[int, int, int, int]]],
) -> None:
    """Rounding makes children end after their parents: no moment is lost, none counts twice."""
    chance = random.Random(5)
    ops = []
    for tid in range(150):
        for _ in range(chance.randint(1, 12)):
            start = chance.randint(0, 30)
            name = chance.choice(["aten::mm"] * 4 + ["c10d::allreduce_"])
            ops.append(Op(tid, start, start + chance.randint(0, 12), name))
    found: list[tuple[int, int]] = []
    for at, _, start, end in pieces(ops):
        found += [(ops[at].tid, now) for now in range(start, end)]
    assert len(set(found)) == len(found)
    assert set(found) == {(op.tid, now) for op in ops for now in range(op.start_us, op.end_us)}


def test_pieces_of_an_op(pieces: Callable[[list[Op]], list[tuple[int, int, int, int]]]) -> None:
    outer, first, second = Op(1, 0, 20), Op(1, 2, 5, "aten::add"), Op(1, 5, 9, "aten::mul")
    assert pieces([outer, first, second]) == [
        (0, 0, 0, 2),
        (0, 1, 9, 20),
        (1, 0, 2, 5),
        (2, 0, 5, 9),
    ]


def test_a_parent_that_comes_later_in_the_file(
    pieces: Callable[[list[Op]], list[tuple[int, int, int, int]]],
) -> None:
    assert pieces([Op(1, 2, 5, "aten::add"), Op(1, 0, 20)]) == [
        (0, 0, 2, 5),
        (1, 0, 0, 2),
        (1, 1, 5, 20),
    ]


def test_ops_of_no_duration_and_ranges_of_python_own_nothing(
    pieces: Callable[[list[Op]], list[tuple[int, int, int, int]]],
) -> None:
    ops = [Op(1, 0, 10), Op(1, 4, 4, "aten::view"), Op(2, 0, 9, "ProfilerStep*")]
    assert pieces(ops) == [(0, 0, 0, 10)]


def test_a_node_of_autograd_is_no_work_but_what_it_calls_is(
    pieces: Callable[[list[Op]], list[tuple[int, int, int, int]]],
) -> None:
    ops = [Op(1, 0, 10, "autograd::engine::evaluate_function: MmBackward0"), Op(1, 3, 7)]
    assert pieces(ops) == [(1, 0, 3, 7)]


def test_a_collective_is_one_piece(
    pieces: Callable[[list[Op]], list[tuple[int, int, int, int]]],
) -> None:
    ops = [
        Op(1, 0, 20, "c10d::allreduce_"),
        Op(1, 4, 8, "aten::copy_"),
        Op(1, 15, 23, "aten::to"),  # Outlasts it.
        Op(2, 1, 9, "gloo:all_reduce", "user_annotation"),
        Op(2, 2, 3, "aten::add"),
        Op(3, 0, 5, "user range", "user_annotation"),
    ]
    assert pieces(ops) == [(0, 0, 0, 20), (2, 0, 20, 23), (3, 0, 1, 9)]


def test_threads_are_apart_and_the_device_is_the_cpu(tiny_trace: Write) -> None:
    ops = [Op(1, 0, 10), Op(2, 5, 12, "aten::add"), Op(2, 30, 40, "c10d::allreduce_")]
    with tracekit.open(tiny_trace([op.event for op in ops])) as trace:
        (row,) = trace.query("timeline").to_dicts()
        assert row["device"] == "cpu"
        assert (row["window_ns"], row["compute_ns"], row["idle_ns"], row["comm_ns"]) == (
            40_000,
            12_000,
            18_000,
            10_000,
        )
        rows = trace.query("kernels").to_dicts()
        assert [(r["name"], r["kernel_ns"], r["wall_ns"], r["kernel_count"]) for r in rows] == [
            ("aten::mm", 10_000, 10_000, 1),
            ("c10d::allreduce_", 10_000, 10_000, 1),
            ("aten::add", 7_000, 2_000, 1),
        ]


def test_with_an_accelerator_the_cpu_is_no_device(tiny_trace: Write) -> None:
    kernel = Op(7, 5, 6, "k", "kernel")
    with tracekit.open(tiny_trace([Op(1, 0, 10).event, kernel.event])) as trace:
        assert trace.sql("SELECT count(*) FROM cpu_work").rows == [(0,)]
        assert trace.query("timeline").column("device") == ["1"]
