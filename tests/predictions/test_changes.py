"""Changes of traces whose answer one can work out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import Event, span, work

import tracekit
from tracekit.errors import QueryError, UsageError
from tracekit.prediction.changes import EXAMPLES, KEYWORDS, parse_change

Predicted = Callable[..., float]
Cli = Callable[..., Any]
LOADER = "enumerate(DataLoader)#_{}DataLoaderIter.__next__"
STEPS = 4


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., float]]:
    """Return a function that gives the predicted window, µs, of events that are opened once."""
    with ExitStack() as stack:

        @cache
        def opened(text: str) -> tracekit.Trace:
            path = tmp_path_factory.mktemp("changes") / "trace.json"
            path.write_text(text, "utf-8")
            return stack.enter_context(tracekit.open(path, cache=False))

        def predict(events: list[Event], *changes: str) -> float:
            found = opened(json.dumps({"traceEvents": events})).predict(*changes, is_recorded=True)
            assert found.predicted_ns is not None
            return found.predicted_ns / 1e3

        yield predict


def op(name: str, start: float, end: float) -> Event:
    return span("cpu_op", name, start, end)


def steps(*events: Event, length: float) -> list[Event]:
    """Return steps that all hold these, one behind the other."""
    found = []
    for number in range(STEPS):
        begin = number * length
        found.append(span("user_annotation", f"ProfilerStep#{number}", begin, begin + length))
        found += [event | {"ts": event["ts"] + begin} for event in events]
    return found


# 1,000 µs of ops, then a range with 1,000 of Python, in the middle of which an op takes 500.
RANGED = steps(
    op("aten::mm", 0, 1000),
    span("user_annotation", "augment", 1000, 2500),
    op("aten::outer", 1500, 2000),
    op("aten::inner", 1600, 1900),
    op("aten::mm", 2500, 3000),
    length=3000,
)


@pytest.mark.parametrize(
    ("change", "window"),
    [
        ("host x1", 12_000),
        ("range=augment remove", 6_000),
        ("range=augment x0.5", 9_000),
        ("range=aug* x3", 24_000),
        ("range=augment step=0 remove", 10_500),
        # An op takes those along that lie in it.
        ("op=aten::outer remove", 10_000),
        ("op=aten::inner remove", 10_800),
        ("op=aten::outer step=1 remove", 11_500),
    ],
)
def test_what_lies_in_ranges_and_ops(predicted: Predicted, change: str, window: float) -> None:
    assert predicted(RANGED, change) == window


@pytest.mark.parametrize(
    ("changes", "window"),
    [
        # 1,000 µs of each step are the host's, the 500 of the op in the range are work.
        (("host x0.5", "host x0.5"), 4 * (2000 + 250)),
        (("python x0.5", "host x0.5"), 4 * (2000 + 250)),
        (("host remove", "python x0.5"), 4 * 2000),
        (("range=augment x0.5", "range=augment x0.5"), 4 * (1500 + 125 + 250)),
        (("range=augment x0.5", "host x0.5"), 4 * (1500 + 250 + 250)),
        (("host x0.5", "range=augment remove"), 4 * 1500),
        (("range=augment remove", "range=augment x0.5"), 4 * 1500),
        (("range=augment x0.5", "op=aten::outer remove"), 4 * (1500 + 500)),
        (("op=aten::m* x0.5", "op=aten::mm x0.5"), 4 * (375 + 1500)),
        (("op=aten::mm remove", "op=aten::mm x0.5"), 4 * 1500),
    ],
)
def test_changes_of_the_same_work_multiply(
    predicted: Predicted, changes: tuple[str, ...], window: float
) -> None:
    assert predicted(RANGED, *changes) == pytest.approx(window, abs=2)


def test_a_range_that_is_not_there(predicted: Predicted) -> None:
    with pytest.raises(QueryError, match="no such range"):
        predicted(RANGED, "range=nothing remove")
    with pytest.raises(UsageError, match="only one op, range"):
        predicted(RANGED, "range=augment op=aten::mm remove")


def test_a_loop_without_a_loader_may_pause(predicted: Predicted) -> None:
    with pytest.raises(QueryError, match="no data loading") as refused:
        predicted(RANGED, "loading remove")
    assert "pauses remove" in (refused.value.hint or "")


# A loader with an op inside, as transforms have, 2,000 µs in all, and 1,000 µs of ops.
LOADED = steps(
    span("user_annotation", LOADER.format("SingleProcess"), 0, 2000),
    op("aten::add", 1200, 1800),
    op("aten::mm", 2000, 3000),
    length=3000,
)


@pytest.mark.parametrize(
    ("change", "window"),
    [
        # The window begins with the first op: 800 µs of the first batch are in it.
        ("loading x0.5", 400 + 1000 + 3 * 2000),
        ("loading remove", 4 * 1000),
        ("loading workers=1", 3 * 2000 + 1000),
        ("loading workers=2", 4 * 1000),
    ],
)
def test_ops_of_a_loader_are_loading(predicted: Predicted, change: str, window: float) -> None:
    assert predicted(LOADED, change) == pytest.approx(window, abs=1)


# A worker needs 2,000 µs; the program waits for it 1,000 in each step, then rebuilds the batch.
WAITED = steps(
    op("aten::mm", 0, 900),
    span("user_annotation", LOADER.format("MultiProcessing"), 900, 2000),
    op("aten::set_", 1900, 1950),
    length=2000,
)


@pytest.mark.parametrize(
    ("change", "window"),
    [("loading x0.5", 1900 + 50 + 3 * 1000), ("loading x2", 1900 + 50 + 3 * 4000)],
)
def test_a_batch_is_there_before_the_loader_rebuilds_it(
    predicted: Predicted, change: str, window: float
) -> None:
    assert predicted(WAITED, change) == pytest.approx(window, rel=0.03)


def reduction(correlation: int, start: float, end: float, elements: int) -> list[Event]:
    """Return an all-reduce of floats, launched long before."""
    said = {"Collective name": "allreduce", "dtype": "Float", "Group size": 2}
    size = {"In msg nelems": elements, "Out msg nelems": elements}
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    return work(20 * correlation, start, end, correlation, name, **said, **size)


@pytest.mark.parametrize(
    ("elements", "lengths_us", "window"),
    [
        # Of one size, all of it is taken for bandwidth.
        ((1000, 1000), (200, 200), 200),
        # 100 µs and 0.1 for each element: the former stay.
        ((1000, 2000), (200, 300), 350),
    ],
)
def test_bandwidth(
    predicted: Predicted, elements: tuple[int, int], lengths_us: tuple[int, int], window: float
) -> None:
    events: list[Event] = []
    at = 100
    for number, (count, length) in enumerate(zip(elements, lengths_us, strict=True)):
        events += reduction(number + 1, at, at + length, count)
        at += length
    assert predicted(events, "bandwidth x2") == pytest.approx(window, rel=0.02)
    twice = predicted(events, "bandwidth x2", "bandwidth x2")
    assert twice == pytest.approx(predicted(events, "bandwidth x4"), abs=1)


def reducing(at: float, computed: float, posted: float, reduced: float, end: float) -> list[Event]:
    """Return a step that computes, hands a reduction to a thread of gloo, and waits for it."""
    events = [
        op("aten::mm", 0, computed),
        op("c10d::allreduce_", computed, computed + 10),
        span("user_annotation", "gloo:all_reduce", posted, reduced, 9),
        op("aten::add", end - 100, end),
    ]
    return [event | {"ts": event["ts"] + at} for event in events]


def test_a_thread_that_goes_on_before_the_record_of_its_reduction_ends(tmp_path: Path) -> None:
    """Each rank waits for the other once; its thread of gloo has a core 60 µs after it went on."""
    waiting, late = (100, 115, 560, 600), (400, 415, 500, 605)
    for rank, (first, second) in enumerate([(waiting, late), (late, waiting)]):
        said = {"distributedInfo": {"rank": rank, "world_size": 2, "backend": "gloo"}}
        events = [*reducing(0, *first), *reducing(610, *second)]
        path = tmp_path / f"rank{rank}.json"
        path.write_text(json.dumps({**said, "traceEvents": events}), "utf-8")
    # Of the first step 200 µs are gone, of the second rank 1 waits longer.
    with tracekit.open(tmp_path, cache=False) as trace:
        found = trace.predict("op=aten::mm rank=1 x0.5", is_recorded=True)
    assert found.recorded_ns == 1_215_000
    assert found.predicted_ns == pytest.approx(1_015_000, abs=1000)


@pytest.mark.parametrize(
    ("late", "change", "window"),
    [
        # What a rank was late by from a step before the window goes with the stall, or doubles.
        (400, "range=stall remove", 4 * 270),
        (400, "range=stall x2", 800 + 4 * 1070),
        # It began with the other one, or later for another reason: that stays.
        (0, "range=stall remove", 4 * 270),
        (100, "range=stall remove", 100 + 4 * 270),
    ],
)
def test_a_rank_begins_as_late_as_its_steps_end(
    tmp_path: Path, late: float, change: str, window: float
) -> None:
    """Rank 1 stalls for 400 µs behind each reduction; the other waits for it in the next."""
    for rank in range(2):
        events = []
        for number in range(STEPS):
            begin = 670 * number + late
            end = begin + 165
            if rank == 0:
                begin = begin - 400 if number else 0
            events += [
                span("user_annotation", f"ProfilerStep#{number}", begin, end + 105 + 400 * rank),
                op("aten::mm", begin, begin + 100),
                op("c10d::allreduce_", begin + 100, begin + 110),
                span("user_annotation", "gloo:all_reduce", begin + 115, end, 9),
                op("aten::add", end + 5 + 400 * rank, end + 105 + 400 * rank),
            ]
            if rank == 1:
                events.append(span("user_annotation", "stall", end + 5, end + 405))
        said = {"distributedInfo": {"rank": rank, "world_size": 2, "backend": "gloo"}}
        path = tmp_path / f"rank{rank}.json"
        path.write_text(json.dumps({**said, "traceEvents": events}), "utf-8")
    with tracekit.open(tmp_path, cache=False) as trace:
        found = trace.predict(change, is_recorded=True)
    assert found.recorded_ns == (late + STEPS * 670) * 1000
    assert found.predicted_ns == pytest.approx(window * 1000, abs=1000)


def test_a_call_that_works_before_it_hands_a_reduction_over(tmp_path: Path) -> None:
    """Three calls of 10 µs, and one that reorders its tensor for 1,000 µs first."""
    path = tmp_path / "rank0.json"
    events = [event for number in range(3) for event in reducing(300 * number, 50, 65, 150, 260)]
    events += [
        op("c10d::_reduce_scatter_base_", 900, 1900),
        span("user_annotation", "gloo:all_reduce", 1905, 2000, 9),
        op("aten::add", 2010, 2100),
    ]
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    with tracekit.open(path, cache=False) as trace:
        assert trace.query("replay").to_dicts()[0]["unexplained_ns"] == 0
        found = trace.predict("op=c10d::_reduce_scatter_base_ x0.1", is_recorded=True)
    assert found.predicted_ns == pytest.approx(1_200_000, abs=20_000)


NUMBER = {"Sequence number": 7}


def forward(module: str, *events: Event) -> list[Event]:
    """Return events in the ranges of a phase and of a module."""
    first, *others = events
    start, end = first["ts"], events[-1]["ts"] + events[-1]["dur"]
    names = ("tk/phase/forward", f"tk/module/forward/{module}")
    ranges = [span("user_annotation", name, start, end) for name in names]
    return [*ranges, first | {"args": NUMBER}, *others]


def backward(*events: Event) -> list[Event]:
    """Return events in the node of autograd that belongs to the first op of the forward pass."""
    start, end = events[0]["ts"], events[-1]["ts"] + events[-1]["dur"]
    node = "autograd::engine::evaluate_function: MmBackward0"
    return [
        span("user_annotation", "tk/phase/backward", start, end),
        span("cpu_op", node, start, end, **NUMBER, **{"Fwd thread id": 1}),
        *events,
    ]


# A layer: products of 300 and 200 µs with 100 of a function between, 50 of Python, and a sum that
# saves no tensor; its backward takes 1,000.
LAYERED = steps(
    *forward(
        "layers.0#Layer",
        op("aten::mm", 0, 300),
        op("aten::gelu", 350, 450),
        op("aten::mm", 450, 650),
        op("aten::add", 650, 700),
    ),
    *backward(op("aten::mm", 700, 1700)),
    length=1700,
)

# Its backward has two products, 20 µs apart; before the first, 300 µs of forward work run again,
# with 50 before it and 90 behind it.
RECOMPUTED = steps(
    *forward("layers.0#Layer", op("aten::mm", 0, 300)),
    *backward(
        op("aten::neg", 300, 310),
        span("user_annotation", "tk/module/recompute/layers.0#Layer", 340, 680),
        op("aten::mm", 360, 660),
        op("aten::mm", 750, 1250),
        op("aten::mm", 1270, 1700),
    ),
    length=1700,
)

# Scores, of which 100 µs are a product, a softmax of 300 and 80 for a mask; 60 behind the products.
ATTENTION = steps(
    *forward(
        "attn#Attention",
        op("aten::bmm", 0, 100),
        op("aten::add", 100, 180),
        op("aten::softmax", 180, 480),
        op("aten::bmm", 480, 580),
        op("aten::clone", 580, 640),
    ),
    *backward(
        op("aten::bmm", 640, 740),
        op("aten::_softmax_backward_data", 740, 940),
        op("aten::bmm", 940, 1040),
    ),
    length=1040,
)

# A norm of four ops, the last of which takes 100 of 400 µs, and a product; backward 500.
NORMED = steps(
    *forward(
        "norm#RMSNorm",
        op("aten::pow", 0, 100),
        op("aten::mean", 100, 200),
        op("aten::rsqrt", 200, 300),
        op("aten::mul", 300, 400),
    ),
    op("aten::mm", 400, 500),
    *backward(op("aten::mul", 500, 800), op("aten::sum", 800, 1000)),
    length=1000,
)


@pytest.mark.parametrize(
    ("events", "change", "step"),
    [
        (LAYERED, "recompute on module=layers.*", 1700 + 300 + 50 + 100),
        (RECOMPUTED, "recompute off", 300 + 10 + 20 + 500 + 20 + 430),
        (RECOMPUTED, "recompute off module=layers.0", 300 + 10 + 20 + 500 + 20 + 430),
        (LAYERED, "accumulate x3", 3 * 1700),
        (ATTENTION, "attention fused", 200 + 60 + 1.25 * 200),
        (NORMED, "norm fused", 100 + 100 + 150),
    ],
)
def test_methods(predicted: Predicted, events: list[Event], change: str, step: float) -> None:
    assert predicted(events, change) == pytest.approx(STEPS * step, abs=2)


def test_hooks_of_zero_stage_3_go_with_the_gathers(predicted: Predicted) -> None:
    """DeepSpeed's hooks: 120 µs of a step before a product, and 200 before its backward pass."""

    def numbered(name: str, start: float, end: float, number: int) -> Event:
        return span("cpu_op", name, start, end, **{"Sequence number": number})

    def gather(start: float, end: float) -> list[Event]:
        return [
            op("c10d::_allgather_base_", start, start + 10),
            span("user_annotation", "gloo:all_gather", start + 15, end, 9),
        ]

    node = "autograd::engine::evaluate_function: {}Backward"
    found = predicted(
        steps(
            span("user_annotation", "tk/phase/forward", 0, 400),
            numbered("aten::gelu", 0, 100, 1),
            op("aten::empty", 120, 130),
            *gather(140, 200),
            op("aten::narrow", 210, 220),
            numbered("PostBackwardFunctionModule", 220, 230, 2),
            numbered("aten::mm", 250, 350, 3),
            numbered("aten::gelu", 360, 400, 4),
            span("user_annotation", "tk/phase/backward", 400, 800),
            span("cpu_op", node.format("PreBackwardFunctionForModule"), 400, 600),
            *gather(420, 500),
            op("aten::narrow", 520, 530),
            span("cpu_op", node.format("Mm"), 600, 800, **NUMBER, **{"Fwd thread id": 1}),
            op("aten::mm", 600, 800),
            length=800,
        ),
        "zero stage=2",
    )
    # Between two numbered ops are 10 µs; the gather of the forward pass stays, with 10 before it.
    step = 100 + 10 + (10 + 15 + 45 + 10) + 100 + 10 + 40 + 200
    assert found == pytest.approx(STEPS * step, abs=2)


@pytest.mark.parametrize(
    ("events", "change", "added"),
    [
        # Product and function with the 50 µs of Python between, in front of the backward pass.
        (
            LAYERED,
            "recompute on module=layers.*",
            [
                ("aten::mm", 700, 300),
                ("tk/module/recompute/layers.0#Layer", 700, 450),
                ("aten::gelu", 1050, 100),
            ],
        ),
        # Each op takes twice as long for itself and a copy behind it.
        (
            LAYERED,
            "accumulate x2",
            [
                ("aten::mm", 300, 300),
                ("aten::gelu", 800, 100),
                ("aten::mm", 1100, 200),
                ("aten::add", 1350, 50),
                ("aten::mm", 2400, 1000),
            ],
        ),
        # Workers began before the window, which the first batch opens.
        (
            LOADED,
            "loading workers=2",
            [
                ("batch of worker 1", -2000, 2000),
                ("batch of worker 2", -1000, 2000),
            ],
        ),
    ],
)
def test_what_is_added_is_drawn(
    tmp_path: Path, events: list[Event], change: str, added: list[tuple[str, float, float]]
) -> None:
    recorded, timeline = tmp_path / "recorded.json", tmp_path / "predicted.json"
    recorded.write_text(json.dumps({"traceEvents": events}), "utf-8")
    with tracekit.open(recorded, cache=False) as trace:
        found = trace.predict(change, timeline=timeline, is_recorded=True)
    drawn = json.loads(timeline.read_text("utf-8"))["traceEvents"]
    start = min(event["ts"] for event in drawn if event["cat"] == "cpu_op")
    told = sorted(
        (event["ts"] - start, event["name"], event["dur"])
        for event in drawn
        if event["args"].get("predicted")
    )
    assert [(name, ts, dur) for ts, name, dur in told[: len(added)]] == added
    with tracekit.open(timeline, cache=False) as trace:
        (row,) = trace.query("timeline").to_dicts()
        assert row["window_ns"] == found.predicted_ns
        if change.startswith("recompute"):
            (again,) = trace.sql(
                "SELECT sum(a.dur_ns), any_value(m.path) FROM attributed_events AS a "
                "LEFT JOIN module AS m USING (trace_id, module_id) WHERE phase = 'recompute'"
            )
            assert again == (4 * 400_000, "layers.0")


@pytest.mark.parametrize(
    ("events", "change", "said"),
    [
        (RANGED, "recompute on module=layers.*", "there is no such work"),
        (LAYERED, "recompute on module=layers.* phase=forward", "with a backward pass"),
        (LAYERED, "attention fused", "no softmax between batched products"),
        (LAYERED, "norm fused", "no norm of several"),
        (LAYERED, "optimizer fused", "no optimizer by many small"),
        (LAYERED, "offload off", "no copies of an offloaded"),
        (RANGED, "accumulate x2", "no such pass"),
        (LAYERED, "recompute off", "no such work"),
    ],
)
def test_methods_that_a_trace_says_nothing_of(
    predicted: Predicted, events: list[Event], change: str, said: str
) -> None:
    with pytest.raises(QueryError, match=said):
        predicted(events, change)


@pytest.mark.parametrize(
    ("change", "step"),
    [
        # 100 µs and 50 for each of a batch; products of 200, which do not grow.
        ("batch=8 of=2,4", 500 + 200),
        ("batch=3 of=2,4", 250 + 200),
        # From 200 to 700 µs: in the square of the length.
        ("sequence=6 of=2,4", 200 + 500 / 12 * 32 + 200),
    ],
)
def test_sizes_of_two_runs(tmp_path: Path, change: str, step: float) -> None:
    is_square = change.startswith("sequence")
    lengths = (200, 700 if is_square else 300)
    runs = []
    for number, length in enumerate(lengths):
        runs.append(tmp_path / f"{number}.json")
        events = steps(
            *forward("layers.0#Layer", op("aten::gelu", 0, length)),
            op("aten::mm", length, length + 200),
            length=length + 200,
        )
        runs[-1].write_text(json.dumps({"traceEvents": events}), "utf-8")
    with tracekit.open(runs[0], cache=False) as one, tracekit.open(runs[1], cache=False) as other:
        found = one.predict(change, further=[other], is_recorded=True)
        assert found.predicted_ns == pytest.approx(1000 * STEPS * step, rel=1e-6)
        for asked, further, said in (
            ("batch=8 of=2,4", [], "one run does not say"),
            ("batch=9 of=2,4", [other], "say nothing of it"),
            ("batch=2 of=4,4", [other], "have the size 4"),
        ):
            with pytest.raises(QueryError, match=said):
                one.predict(asked, further=further)
        for asked, said in (
            ("batch=8 of=2,4,8", "2 runs, and 3 sizes"),
            ("batch=8", "no manifest"),
        ):
            with pytest.raises(UsageError, match=said):
                one.predict(asked, further=[other])


@pytest.mark.parametrize(
    ("change", "window"),
    [
        # Two ranks send 2 messages in a row and 1 of the size: 100 µs, and 0.1 for each element.
        # Eight in a ring send 14, and 7/4; in a tree 6, and twice the size.
        ("group size=8", 2 * 100 * 7 + (100 + 200) * 7 / 4),
        ("algorithm=tree", 2 * 100 + (100 + 200) * 2),
        ("algorithm=halving", 200 + 300),
    ],
)
def test_other_groups_and_algorithms(predicted: Predicted, change: str, window: float) -> None:
    events = [*reduction(1, 100, 300, 1000), *reduction(2, 300, 600, 2000)]
    assert predicted(events, change) == pytest.approx(window, rel=0.02)


@pytest.fixture
def measured(make_run: Callable[..., Path]) -> Path:
    """Return a run of bench: 50 µs and 0.1 ns a byte for two ranks, 200 and 0.3 for eight."""
    known = {"family": "collective", "op": "all_reduce", "outcome": "ok", "backend": "nccl"}
    known |= {"device": "cuda:0", "device_name": "X"}
    sizes = [
        {"group_size": ranks, "message_bytes": size, "median_ns": 1000 * latency + size * ns}
        for ranks, latency, ns in ((2, 50, 0.1), (8, 200, 0.3))
        for size in (1000, 2000, 1_000_000)
    ]
    points = [{"bench_id": number, **known, **size} for number, size in enumerate(sizes)]
    return make_run("bench", benchmarks=points, stage="bench")


@pytest.mark.parametrize(
    ("change", "window", "said"),
    [
        # Of 200 µs 50 are latency, though all messages have one size.
        ("bandwidth x2", 50 + 75, "of 1 of 1 with the latency measured in bench"),
        ("latency x3", 150 + 150, "of 1 of 1 with the latency measured in bench"),
        ("group size=8", 200 + 3 * 150, "as measured among 8 ranks: comm_allreduce"),
        # In a ring of four ranks 6 messages come in a row, not 2, and 3/2 of the size, not 1.
        ("group size=4", 150 + 1.5 * 150, "links among 4 ranks"),
    ],
)
def test_links_as_bench_measured_them(
    tmp_path: Path, measured: Path, change: str, window: float, said: str
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": reduction(1, 100, 300, 1000)}), "utf-8")
    with (
        tracekit.open(path, cache=False) as trace,
        tracekit.open(measured, traces=False, cache=False) as bench,
    ):
        found = trace.predict(change, further=[bench], is_recorded=True)
    assert found.predicted_ns == pytest.approx(1000 * window, rel=0.02)
    assert any(said in text for text in found.assumptions)


def test_bench_is_of_the_same_device(tmp_path: Path, cli: Cli, measured: Path) -> None:
    path = tmp_path / "trace.json"
    for name, code in (("X", 0), ("Y", 5)):
        trace = {"deviceProperties": [{"id": 0, "name": name}]}
        path.write_text(json.dumps(trace | {"traceEvents": reduction(1, 100, 300, 1000)}), "utf-8")
        done = cli("predict", path, "--change", "latency x2", "--ceilings", measured)
        assert done.exit_code == code
    assert "collectives were measured on X, and this trace is of another device" in done.stderr


def test_an_algorithm_without_latency(predicted: Predicted) -> None:
    with pytest.raises(QueryError, match="cannot be told apart"):
        predicted(reduction(1, 100, 300, 1000), "algorithm=tree")
    with pytest.raises(QueryError, match="only stage 2"):
        predicted(LAYERED, "zero stage=1")
    with pytest.raises(QueryError, match="hooks of stage 3 take on the host"):
        predicted(LAYERED, "zero stage=3")
    with pytest.raises(QueryError, match="how long it takes there is in no trace"):
        predicted(LAYERED, "offload on")
    with pytest.raises(QueryError, match="no gather of parameters"):
        predicted(LAYERED, "zero stage=2")


def test_the_interval_has_the_time_of_checkpointing_itself(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": LAYERED}), "utf-8")
    with tracekit.open(path, cache=False) as trace:
        found = trace.predict("recompute on module=layers.*", is_recorded=True)
    assert found.predicted_ns is not None
    assert found.high_ns >= found.predicted_ns + STEPS * 1_000_000


def test_recomputation_without_modules(predicted: Predicted) -> None:
    with pytest.raises(UsageError, match="which modules"):
        predicted(LAYERED, "recompute on")


def test_every_kind_of_change_has_an_example() -> None:
    parsed = [parse_change(example) for example in EXAMPLES]
    keywords = {change.keyword for change in parsed} - {"size"}
    assert keywords == {None, *KEYWORDS}


def test_without_a_change_all_kinds_are_listed(cli: Cli) -> None:
    done = cli("predict", "trace.json")
    assert (done.exit_code, done.stdout) == (2, "")
    for example in EXAMPLES:
        assert f"\n{example}  " in f"\n{done.stderr}"
