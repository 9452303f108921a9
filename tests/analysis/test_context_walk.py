"""The walk over the CPU's threads: what a launch is inside of, also where spans do not nest."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import AskedByRank, Cases, opened_as_ranks
from traces_by_hand import Event, call, kernel, span

import tracekit
from tracekit.analysis import context_walk, walked_modules

Write = Callable[..., Path]


def work(at: float, correlation: int = 1, tid: int = 1) -> list[Event]:
    """A launch that takes no time, and the kernel that it put on the device."""
    return [
        call(at, at, correlation, tid=tid),
        kernel("k", at + 1e6, at + 1e6 + 1, correlation),
    ]


def module(name: str, start: float, end: float) -> Event:
    return span("python_function", f"nn.Module: {name}", start, end)


CONTEXTS = """(
    SELECT e.trace_id, e.correlation, e.op_id, m.path, e.phase
    FROM attributed_events AS e
    LEFT JOIN module AS m ON e.trace_id = m.trace_id AND e.module_id = m.module_id
)"""
CASES = Cases()
asked = CASES.fixture()


def contexts(asked: AskedByRank, rank: int) -> dict[int, tuple[Any, ...]]:
    """Op, module path and phase of every launch, by correlation."""
    rows = asked.table(rank, CONTEXTS, "correlation, op_id, path, phase")
    return {correlation: rest for correlation, *rest in rows}


ENDS_LATE = CASES.add([module("Outer_0", 0, 100), module("Inner_0", 50, 100.4), *work(60)])


def test_a_child_that_ends_late_by_rounding_stays_inside(asked: AskedByRank) -> None:
    assert contexts(asked, ENDS_LATE)[1][1] == "Outer_0/Inner_0"


OUTLIVES = CASES.add(
    [
        module("Outer_0", 0, 1000),
        span("python_function", "nn.Module: Enter_0", 10, 15),
        span("user_annotation", "tk/phase/decode", 12, 900),
        *work(500),
    ]
)


def test_a_range_that_a_call_opened_outlives_the_call(asked: AskedByRank) -> None:
    """`_record_function_enter` contains the start of the range that it opens."""
    _, path, phase = contexts(asked, OUTLIVES)[1]
    assert (path, phase) == ("Outer_0", "decode")


EQUAL_SPANS = CASES.add(
    [
        span("cpu_op", "aten::mm", 0, 10),
        span("user_annotation", "Optimizer.step#SGD.step", 0, 10),
        module("Net_0", 0, 10),
        *work(5),
    ]
)


def test_of_equal_spans_the_outer_kind_is_outside(asked: AskedByRank) -> None:
    op, path, phase = contexts(asked, EQUAL_SPANS)[1]
    assert (op, path, phase) == (0, None, "optimizer")


WITHOUT_LENGTH = CASES.add([module("Net_0", 0, 10), span("cpu_op", "aten::mm", 5, 5), *work(5)])


def test_spans_without_length_enclose_nothing(asked: AskedByRank) -> None:
    assert contexts(asked, WITHOUT_LENGTH)[1][:2] == [None, "Net_0"]


TWO_THREADS = CASES.add([module("Net_0", 0, 100), *work(50, 1, tid=2), *work(60, 2)])


def test_threads_do_not_enclose_each_other(asked: AskedByRank) -> None:
    found = contexts(asked, TWO_THREADS)
    assert (found[1][1], found[2][1]) == (None, "Net_0")


CALLED_AGAIN = CASES.add(
    [module("Net_0", 0, 10), *work(5, 1), module("Net_0", 20, 30), *work(25, 2)]
)


def test_a_module_called_again_is_the_same(asked: AskedByRank) -> None:
    rows = asked.table(CALLED_AGAIN, "module", "path, position, last_position")
    assert rows == [("Net_0", 0, 0)]


TREE = CASES.add(
    [
        module("Net_0", 0, 100),
        module("A_0", 1, 20),
        module("B_0", 2, 10),
        module("C_0", 30, 50),
        *work(5),
    ]
)


def test_the_tree_is_numbered_from_the_top(asked: AskedByRank) -> None:
    rows = asked.table(TREE, "module", "name, depth, position, last_position", "3")
    assert rows == [("Net_0", 0, 0, 3), ("A_0", 1, 1, 2), ("B_0", 2, 2, 2), ("C_0", 1, 3, 3)]


def random_spans(seed: int) -> list[Event]:
    """Ops of two threads, crossing, touching, equal and empty ones among them, and launches."""
    chance = random.Random(seed)
    events: list[Event] = []
    correlation = 0
    for tid in (1, 2):
        for _ in range(60):
            start = 2 * chance.randrange(200)
            length = 2 * chance.choice((0, 1, 1, 2, 5, 20, 80))
            events.append(span("cpu_op", "aten::x", start, start + length, tid))
        for _ in range(60):
            correlation += 1
            events += work(2 * chance.randrange(250), correlation, tid)
    chance.shuffle(events)
    return events


def innermost(events: list[Event], at: float, tid: int) -> int | None:
    """The op that was opened last of those that are open: what «inside of» means, said plainly."""
    best, key = None, None
    for number, event in enumerate(events):
        if event["cat"] != "cpu_op" or event["tid"] != tid:
            continue
        start, end = event["ts"], event["ts"] + event["dur"]
        if start <= at < end:
            order = (start, -end, number)
            if key is None or order > key:
                best, key = number, order
    return best


SEEDS = range(12)


@pytest.fixture(scope="module", params=["compiled", 20_000, 7])
def ops_of_launches(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[int, int], int | None]:
    """Return the op of every launch by seed and correlation, walked in chunks of some rows.

    Where the walk is compiled, it is walked so too.
    """
    cases = [random_spans(seed) for seed in SEEDS]
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "compiled":
            patch.setattr(context_walk, "compiled_sweeps", lambda: None)
            patch.setattr(context_walk, "_CHUNK_ROWS", request.param)
        with opened_as_ranks(tmp_path_factory.mktemp("random"), cases) as trace:
            rows = trace.sql(
                "SELECT t.rank, e.correlation, e.op_id FROM attributed_events AS e"
                " JOIN trace AS t USING (trace_id)"
            ).rows
    return {(rank, correlation): op for rank, correlation, op in rows}


@pytest.mark.parametrize("seed", SEEDS)
def test_random_spans(ops_of_launches: dict[tuple[int, int], int | None], seed: int) -> None:
    events = random_spans(seed)
    for event in events:
        if event["cat"] == "cuda_runtime":
            correlation = event["args"]["correlation"]
            expected = innermost(events, event["ts"], event["tid"])
            assert ops_of_launches[seed, correlation] == expected, event


def test_names_that_never_repeat_do_not_fill_the_memory(
    tiny_trace: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walked_modules, "MAX_MODULES", 5)
    events = [span("user_annotation", "all", 0, 1000)]
    events += [span("user_annotation", f"request {i}", 10 * i, 10 * i + 5) for i in range(20)]
    events += work(151)
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        assert trace.sql("SELECT count(*) FROM module").rows == [(5,)]
        assert trace.query("modules").column("module_path") == ["all"]


NUMBER = {"Sequence number": 5}
NODE = {**NUMBER, "Fwd thread id": 1}


CROSSED_NODE = CASES.add(
    [
        span("user_annotation", "tk/module/forward/fc#Linear", 0, 10),
        span("cpu_op", "aten::mm", 1, 9, **NUMBER),
        span("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 20, 50, **NODE),
        span("user_annotation", "tk/module/backward/other#Linear", 25, 70),
        *work(30, correlation=1),
        span("cpu_op", "MmBackward0", 35, 45, **NODE),
        *work(40, correlation=2),
        span("cpu_op", "autograd::engine::evaluate_function: AddBackward0", 55, 80),
        *work(60, correlation=3),
    ]
)


def test_a_backward_range_does_not_end_the_node_that_it_crosses(asked: AskedByRank) -> None:
    """Hooks begin it inside of one autograd node and end it inside of another."""
    found = contexts(asked, CROSSED_NODE)
    assert found[1][1:] == ["fc", "backward"]
    assert found[2][1:] == ["fc", "backward"]
    assert found[3][2] == "backward"


HOOKS = CASES.add(
    [
        span("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 0, 20),
        span("cpu_op", "aten::mm", 5, 15, **{"Sequence number": 1}),
        *work(10, correlation=1),
        span("cpu_op", "aten::t", 16, 18),
        span(
            "cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 30, 60
        ),
        span("cpu_op", "torch::autograd::AccumulateGrad", 32, 58),
        span("cpu_op", "aten::view_as", 40, 50, **{"Sequence number": 9}),
        *work(45, correlation=2),
    ]
)


def test_what_hooks_do_with_a_gradient_is_no_recomputation(asked: AskedByRank) -> None:
    """DeepSpeed's run inside of AccumulateGrad with grad mode on: their ops have numbers."""
    found = contexts(asked, HOOKS)
    assert found[1][2] == "recompute"
    assert found[2][2] == "backward"


AGAIN = {"Sequence number": 9, "Fwd thread id": 0}
TENSOR_PARALLEL = CASES.add(
    [
        span("cpu_op", "autograd::engine::evaluate_function: RedistributeBackward", 0, 50, **NODE),
        span("cpu_op", "RedistributeBackward", 1, 49, **NODE),
        span("cpu_op", "NestedRedistribute", 2, 40, **AGAIN),
        span("cpu_op", "c10d::allgather_", 3, 30),
        *work(10),
        span("cpu_op", "aten::mm", 41, 48, **AGAIN),
        *work(45, correlation=2),
        # In forward it is an op like others.
        span("cpu_op", "_FromTorchTensor", 60, 70, **AGAIN),
        *work(65, correlation=3),
        span("cpu_op", "DerivedBackward", 80, 90, **AGAIN | {"Fwd thread id": 1}),
    ]
)


def test_the_backward_pass_of_a_tensor_parallel_layer_is_no_recomputation(
    asked: AskedByRank,
) -> None:
    """DTensor computes in backward with grad mode on, as checkpointing does: see `derivative`."""
    found = contexts(asked, TENSOR_PARALLEL)
    assert [found[number][2] for number in (1, 2, 3)] == ["backward", "recompute", "forward"]


COLLECTIVE_RANGE = CASES.add(
    [
        span("user_annotation", "nccl:all_to_all", 0, 90),
        *work(2),
        span("cpu_op", "aten::mm", 10, 20),
        *work(15, correlation=2),
        span("user_annotation", "mine", 30, 60),
        *work(40, correlation=3),
        span("user_annotation", "## forward ##", 62, 88),
        *work(64, correlation=4),
        span("user_annotation", "## forward:bottom_mlp ##", 70, 80),
        *work(75, correlation=5),
    ]
)


def test_others_inside_of_the_range_of_a_collective_are_not_its_own(asked: AskedByRank) -> None:
    """An asynchronous one stays open while others run."""
    found = dict(
        asked.table(
            COLLECTIVE_RANGE,
            "(SELECT e.trace_id, e.correlation, m.path FROM attributed_events AS e "
            "LEFT JOIN module AS m ON e.trace_id = m.trace_id AND e.module_id = m.module_id)",
            "correlation, path",
            "correlation",
        )
    )
    rows = dict(
        asked.table(COLLECTIVE_RANGE, "attributed_events", "correlation, row_name", "correlation")
    )
    assert rows[1] == "(communication)"
    assert rows[2] != "(communication)"
    assert (rows[3], found[3]) == (None, "mine")
    assert (rows[4], found[4]) == ("(unattributed)", None)
    assert (rows[5], found[5]) == (None, "## forward:bottom_mlp ##")


NAMED_NODES = [
    CASES.add([span("cpu_op", name, 0, 20), span("cpu_op", "aten::conv", 1, 18), *work(10)])
    for name in ("CudnnConvolutionBackward", "torch::autograd::CopySlices")
]


@pytest.mark.parametrize("rank", NAMED_NODES)
def test_a_node_without_a_number_is_known_by_its_name(asked: AskedByRank, rank: int) -> None:
    assert contexts(asked, rank)[1][2] == "backward"


NAMED_FORWARD = CASES.add(
    [
        span("cpu_op", "CustomBackward", 0, 20, **{"Sequence number": 1}),
        *work(10),
        span("cpu_op", "aten::mm", 30, 40, **{"Sequence number": 2}),
        *work(35, correlation=2),
    ]
)


def test_a_name_makes_no_node_where_nodes_have_numbers(asked: AskedByRank) -> None:
    assert contexts(asked, NAMED_FORWARD)[1][2] != "backward"


TIED = [
    span("cpu_op", "outer", 0, 20, **{"External id": 1}),
    span("cpu_op", "inner", 0, 20, **{"External id": 2}),
    *work(10),
]
TIES = [CASES.add(TIED), CASES.add(TIED[::-1])]


def test_the_order_of_a_file_is_no_nesting(asked: AskedByRank) -> None:
    """Both times the op is `inner`, which has another number in each file."""
    assert [contexts(asked, rank)[1][0] for rank in TIES] == [1, 2]
