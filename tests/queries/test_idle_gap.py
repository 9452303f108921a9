"""Table idle_gap: every gap of a device once, with one cause."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cases_as_ranks import opened_as_ranks
from traces_by_hand import Event, kernel, span
from traces_by_hand import call as launch

import tracekit

# Times are microseconds, as in a trace; the thread is always the same one.


def call(name: str, start: float, end: float, correlation: int = 0) -> Event:
    return launch(start, end, correlation, name)


def note(name: str, start: float, end: float) -> Event:
    return span("user_annotation", name, start, end)


def python(name: str, start: float, end: float) -> Event:
    return span("python_function", name, start, end)


# The first kernel runs from 100 to 110, the second one begins at 130.
FIRST = [launch(90, 95, 10), kernel("first", 100, 110, 10)]
SECOND = kernel("second", 130, 140, 11)
# Launched late: the call returns 15 µs into the gap of 20 µs.
LATE = [launch(120, 125, 11), SECOND]
# Launched in time.
EARLY = [launch(96, 99, 11), SECOND]
ON_STREAM_8 = kernel("second", 130, 140, 11, stream=8)
BEFORE_WINDOW = [launch(150, 151, 12), FIRST[1]]
THIRD = kernel("third", 140, 160, 12)
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def copied(kind: str, call_end: float = 112) -> list[Event]:
    return [call("cudaMemcpyAsync", 90, call_end, 10), kernel(f"Memcpy {kind}", 100, 110, 10)]


def copy(
    kind: str, name: str = "cudaMemcpyAsync", start: float = 105, end: float = 129
) -> list[Event]:
    return [call(name, start, end, 11), kernel(f"Memcpy {kind}", 130, 140, 11)]


CASES: dict[str, dict[str, list[Event]]] = {
    "host_bound": {
        "the launch came late": [*FIRST, *LATE],
        "the launch call itself took long": [*FIRST, launch(105, 125, 11), SECOND],
        # 2 µs in the gap and 2 before it: without the wait, the launch would have come late, too.
        "a wait was short": [*FIRST, call("cudaStreamSynchronize", 108, 112), *LATE],
        "a copy on the device waits for nobody": [*copied("DtoD (Device -> Device)"), *LATE],
        "nor does one that ends the gap": [*FIRST, *copy("DtoD (Device -> Device)")],
        "nor does one from pinned memory": [*FIRST, *copy("HtoD (Pinned -> Device)")],
        "a synchronous copy on the device returns at once": [
            *[
                call("cudaMemcpy", 90, 95, 10),
                kernel("Memcpy DtoD (Device -> Device)", 100, 110, 10),
            ],
            *copy("DtoD (Device -> Device)", "cudaMemcpy", 111),
        ],
        "memory of a kind that is not told, and the call had returned": [
            *[*FIRST, *copy("HtoD (Host -> Device)", "hipMemcpyAsync")],
        ],
        "memory was taken for less than half": [*FIRST, call("cudaMalloc", 111, 118), *LATE],
        "the data loader of another thread": [
            *[*FIRST, note("tk/phase/data", 105, 119) | {"tid": 2}, *LATE],
        ],
        "a graph that was launched late": [*FIRST, call("cudaGraphLaunch", 120, 125, 11), SECOND],
        "what is missing ran before": [launch(85, 86, 50), *FIRST, *LATE],
        "what is missing was launched on another thread": [
            *[*FIRST, launch(108, 109, 50, tid=2), *LATE],
        ],
        "what is missing came late": [
            *[*FIRST, launch(122, 123, 50), launch(126, 129, 11), SECOND],
        ],
        "a memset of nothing is missing": [*FIRST, call("cudaMemsetAsync", 108, 109, 50), *LATE],
        "the driver loads a kernel": [
            *[*FIRST, span("overhead", "Lazy Function Loading", 111, 121, 99), *LATE],
        ],
        "the profiler takes a little": [
            *[*FIRST, span("overhead", "Buffer Flush", 105, 113, 99), *LATE],
        ],
    },
    "launch_latency": {
        "the launch call was running, and short": [
            *[*FIRST, launch(108, 113, 11), kernel("second", 115, 120, 11)],
        ],
        "launched in time": [*FIRST, *EARLY],
        "the call returned before the middle": [*FIRST, launch(111, 115, 11), SECOND],
        "behind communication of the same stream": [
            *[launch(90, 95, 10), kernel(REDUCE, 100, 110, 10), *EARLY],
        ],
        "another launch's wait": [*FIRST, call("cudaStreamWaitEvent", 80, 81), *EARLY],
        "not so long, and in time": [*FIRST, EARLY[0], kernel("second", 209.999, 220, 11)],
        "a graph that was launched in time": [*FIRST, call("hipGraphLaunch", 96, 99, 11), SECOND],
        "queued before the window": [*BEFORE_WINDOW, SECOND, THIRD],
    },
    "host_sync": {
        # 2 µs in the gap and 14 before it: without the wait, the launch would have been in time.
        "a wait was running": [*FIRST, call("cudaStreamSynchronize", 96, 112), *LATE],
        "most of the gap is a wait": [*FIRST, call("hipDeviceSynchronize", 111, 119), *LATE],
        "item() of a value on the device": [*FIRST, span("cpu_op", "aten::item", 97, 112), *LATE],
        "a blocking copy was running": [*copied("DtoH (Device -> Pageable)"), *LATE],
        "the copy stages its bytes first": [*FIRST, *copy("HtoD (Pageable -> Device)")],
        "what follows the copy to pinned memory waits for it": [
            *copied("DtoH (Device -> Pinned)", 95),
            *[call("cudaStreamSynchronize", 96, 112), *LATE],
        ],
        "memory of a kind that is not told, and the call still ran": [
            *[*FIRST, *copy("HtoD (Host -> Device)", "hipMemcpyAsync", end=131)],
        ],
    },
    "allocator": {
        "memory was taken": [*FIRST, call("cudaMalloc", 111, 119), *LATE],
        "memory was returned": [*FIRST, call("hipFree", 111, 119), *LATE],
        "two short calls": [
            *[*FIRST, call("cudaMalloc", 111, 115), call("cudaFree", 115, 119), *LATE],
        ],
    },
    "data_loading": {
        "the data loader, as a range": [*FIRST, note(LOADER, 111, 119), *LATE],
        "the data loader, as a Python function": [
            *[*FIRST, python("torch/utils/data/dataloader.py(733): __next__", 105, 119), *LATE],
        ],
        "the collectors' data phase": [*FIRST, note("tk/phase/data", 105, 119), *LATE],
    },
    "comm_wait": {
        "the CPU waits for other ranks": [*FIRST, note("## wait_for_batch ##", 105, 119), *LATE],
        "behind communication of another stream": [
            *[launch(90, 95, 10), kernel(REDUCE, 100, 110, 10, stream=20), *EARLY],
        ],
    },
    "dependency": {
        "ready on a stream that was idle": [*FIRST, EARLY[0], ON_STREAM_8],
        "its stream was told to wait": [*FIRST, call("cudaStreamWaitEvent", 95.2, 95.8), *EARLY],
        "queued before the window on another stream": [*BEFORE_WINDOW, ON_STREAM_8, THIRD],
    },
    "graph_gap": {
        "between the kernels of a graph": [
            *[call("cudaGraphLaunch", 90, 95, 10), FIRST[1], kernel("second", 130, 140, 10)],
        ],
        "inside of a graph, behind work of another stream": [
            *[call("cudaGraphLaunch", 80, 85, 11), kernel("of the graph", 90, 95, 11)],
            *[launch(86, 88, 10), kernel("other", 92, 110, 10, stream=20), SECOND],
        ],
    },
    "not_recorded": {
        "long, inside of a graph": [
            *[call("cudaGraphLaunch", 90, 95, 10), FIRST[1], kernel("second", 5130, 5140, 10)],
        ],
        "a kernel in between is missing": [*FIRST, launch(108, 109, 50), *LATE],
        "and was launched in time": [*FIRST, launch(96, 97, 50), launch(98, 99, 11), SECOND],
        "a replay in between is missing": [*FIRST, call("hipGraphLaunch", 112, 113, 50), *LATE],
        "a wait for what is missing": [
            *[*FIRST, launch(96, 97, 50), call("cudaStreamSynchronize", 98, 119), *LATE],
        ],
        "a kernel in between has no time": [
            *[*FIRST, launch(108, 109, 50), kernel("lost", 0, 0, 50), *LATE],
        ],
        "nor has its launch": [
            *[*FIRST, call("cudaEventRecord", 106, 107, 11), launch(0, 0, 12)],
            *[kernel("lost", 0, 0, 12), launch(120, 125, 13), kernel("second", 130, 140, 13)],
        ],
    },
    "profiler": {
        "it asks for memory, on a thread of its own": [
            *[*FIRST, span("overhead", "Activity Buffer Request", 111, 121, 99), *LATE],
        ],
        "and the host waits for the device meanwhile": [
            *[*FIRST, span("overhead", "Buffer Flush", 105, 119, 99)],
            *[call("cudaStreamSynchronize", 105, 119), *LATE],
        ],
    },
    "unknown": {
        "long, and in time": [*FIRST, EARLY[0], kernel("second", 210.002, 220, 11)],
        "long, and in time before the window": [
            *[launch(350, 351, 12), FIRST[1]],
            *[kernel("second", 330, 340, 11), kernel("third", 340, 360, 12)],
        ],
        "the launch is missing": [*FIRST, SECOND],
    },
}


def test_cause(tmp_path: Path) -> None:
    # All in one store: gaps of one trace must not see the calls of another one.
    cases = [(name, cause, events) for cause, of in CASES.items() for name, events in of.items()]
    with opened_as_ranks(tmp_path, [events for *_, events in cases]) as trace:
        gaps = trace.sql(
            "SELECT list(DISTINCT cause) FROM idle_gap GROUP BY trace_id ORDER BY trace_id"
        )
    found = dict(zip([name for name, *_ in cases], [row[0] for row in gaps.rows], strict=True))
    assert found == {name: [cause] for name, cause, _ in cases}


def test_a_start_is_late_by_what_launches_take_on_this_device(
    tiny_trace: Callable[..., Path],
) -> None:
    """Ten launches into idle time start 4 µs after their calls began, so 20 µs are five times that.

    Behind them two are launched in time; one starts 20 µs after the work before it, one 21 µs.
    """
    events = [kernel("before", 0, 1, 99)]
    for number in range(10):
        at = 10 + 10 * number
        events += [launch(at, at + 3, number + 1)]
        events += [kernel("k", at + 4, at + 5, number + 1)]
    events += [launch(103.2 + step / 2, 103.4 + step / 2, 20 + step) for step in (0, 1)]
    events += [kernel("in time", 125, 130, 20), kernel("late", 151, 160, 21)]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        gaps = trace.sql("SELECT cause, idle_ns FROM idle_gap ORDER BY gap_id DESC LIMIT 2").rows
        health = {row["metric"]: row for row in trace.health().to_dicts()}
    assert gaps == [("unknown", 21_000), ("launch_latency", 20_000)]
    assert health["unexplained_late_starts"]["value"] == 1
    assert health["unexplained_late_starts"]["severity"] == "warn"


def test_a_gap_is_only_where_no_stream_works(tiny_trace: Callable[..., Path]) -> None:
    events = [
        launch(1, 2, 1),
        kernel("long", 10, 50, 1),
        kernel("inside", 20, 30, 2, stream=8),
        kernel("touches", 50, 60, 3, stream=8),
        kernel("apart", 70, 80, 4),
        kernel("empty", 75, 75, 5, stream=8),
        kernel("also apart", 90, 95, 6),
        kernel("other device", 65, 66, 7, device=1),
        kernel("other device", 68, 69, 8, device=1),
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        gaps = trace.sql(
            "SELECT g.device, start_ns, end_ns, idle_ns, p.name, n.name FROM idle_gap AS g "
            "JOIN event AS p ON g.previous_event_id = p.event_id "
            "JOIN event AS n ON g.next_event_id = n.event_id ORDER BY gap_id"
        )
    assert gaps.rows == [
        ("0", 60_000, 70_000, 10_000, "touches", "apart"),
        ("1", 66_000, 68_000, 2_000, "other device", "other device"),
        ("0", 80_000, 90_000, 10_000, "apart", "also apart"),
    ]


def test_the_op_is_the_one_at_work_else_the_one_that_launches(tmp_path: Path) -> None:
    launching = span("cpu_op", "aten::mul", 119, 126)
    # The middle of the host's part, 110 to 125, is 117.5.
    cases = [
        ([launching], (None, "aten::mul")),
        ([span("cpu_op", "aten::sort", 105, 118), launching], ("aten::sort", "aten::sort")),
        ([span("cpu_op", "aten::sort", 105, 117), launching], (None, "aten::mul")),
        (
            [span("cpu_op", "outer", 105, 128), span("cpu_op", "inner", 117, 118), launching],
            ("inner", "inner"),
        ),
        (
            [span("cpu_op", "outer", 105, 128), span("cpu_op", "before", 106, 117), launching],
            ("outer", "outer"),
        ),
        ([span("cpu_op", "elsewhere", 105, 128) | {"tid": 2}, launching], (None, "aten::mul")),
    ]
    with opened_as_ranks(tmp_path, [[*FIRST, *LATE, *ops] for ops, _ in cases]) as trace:
        found = trace.sql(
            "SELECT busy.name, op.name FROM idle_gap AS g "
            "LEFT JOIN event AS busy "
            "ON g.trace_id = busy.trace_id AND busy_op_id = busy.event_id "
            "LEFT JOIN event AS op ON g.trace_id = op.trace_id AND op_id = op.event_id "
            "ORDER BY g.trace_id"
        )
    assert found.rows == [expected for _, expected in cases]


def test_on_cpu_the_host_keeps_the_cpu_busy(tiny_trace: Callable[..., Path]) -> None:
    events = [
        span("cpu_op", "aten::mm", 10, 20),
        span("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 25, 45),
        span("cpu_op", "aten::add", 40, 45),
        span("cpu_op", LOADER, 46, 58),
        span("cpu_op", "aten::mul", 60, 70),
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        gaps = trace.sql(
            "SELECT idle_ns, cause, phase, name FROM idle_gap "
            "LEFT JOIN event ON op_id = event_id ORDER BY gap_id, start_ns"
        )
    # 20 to 40: the middle, 30, is in the node, which begins at 25; 45 to 60: the data loader has 12
    # of 15, and ends at 58.
    node = "autograd::engine::evaluate_function: MmBackward0"
    assert gaps.rows == [
        (5_000, "host_bound", "backward", "aten::add"),
        (15_000, "host_bound", "backward", node),
        (1_000, "data_loading", "optimizer", LOADER),
        (12_000, "data_loading", "data", LOADER),
        (2_000, "data_loading", "optimizer", LOADER),
    ]


def on(tid: int, event: Event, **args: object) -> Event:
    return event | {"tid": tid, "args": event["args"] | args}


# Thread 1 calls a backward pass at 101, which thread 2 runs until 119, and launches again at 120.
FORWARD = on(1, span("cpu_op", "aten::mm", 88, 96), **{"Sequence number": 5})
NODE = on(
    2,
    span("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 101, 119),
    **{"Sequence number": 5, "Fwd thread id": 1},
)
CALL = on(1, python("<built-in method run_backward of torch._C>", 101, 119.5))
LOCK = on(1, python("<built-in method acquire of _thread.lock object at 0x7f>", 101, 119))
QUEUE = python("<built-in method get of _queue.SimpleQueue object>", 101, 118)
RELEASE = "<built-in method release of _thread.lock object at 0x7f>"
GIVEN = on(3, python(RELEASE, 118.5, 119.5))
OPTIMIZER = [note("Optimizer.step#AdamW.step", 119.8, 127), *LATE]
BEGIN = [FORWARD, *FIRST]
FREE = call("hipFree", 104, 118)
SUM = span("cpu_op", "aten::sum", 104, 118)
WAITING_CALL = [*FIRST, span("cpu_op", "aten::mul", 104, 128), launch(105, 125, 11)]
DRIVER = on(3, call("cudaFree", 103, 124))
OTHER_THREADS: dict[str, tuple[tuple[object, ...], list[Event]]] = {
    "the thread of the nodes returns memory": (
        ("allocator", 2, NODE["name"], "backward"),
        [*BEGIN, NODE, on(2, FREE), *OPTIMIZER],
    ),
    "likewise, and the stack shows who called": (
        ("allocator", 2, None, "backward"),
        [
            *[*FIRST, CALL, NODE | {"dur": 1}, on(2, launch(101.2, 101.4, 12))],
            *[kernel("small", 102, 102.5, 12, stream=8), on(2, FREE), *OPTIMIZER],
        ],
    ),
    "the thread of the nodes is at work": (
        ("host_bound", 2, "aten::sum", "backward"),
        [*BEGIN, NODE, on(2, SUM), *OPTIMIZER],
    ),
    "another thread than that of the forward ops is busy": (
        ("host_bound", 1, "aten::mul", "optimizer"),
        [*BEGIN, *OPTIMIZER, span("cpu_op", "aten::mul", 119.9, 126), on(3, FREE)],
    ),
    "the backward pass took less than half of it": (
        ("host_sync", 1, None, "optimizer"),
        [
            *[*BEGIN, *OPTIMIZER, call("cudaStreamSynchronize", 110, 119)],
            *[NODE | {"dur": 6}, on(2, call("hipFree", 101, 107))],
        ],
    ),
    "the thread of the nodes waits for its caller": (
        ("host_sync", 1, "aten::item", "backward"),
        [
            *[*BEGIN, span("cpu_op", "aten::item", 97, 118), NODE | {"ts": 119, "dur": 12}],
            *(on(2, event) for event in LATE),
        ],
    ),
    "another thread gives a lock back": (
        ("allocator", 3, None, "optimizer"),
        [*BEGIN, LOCK, on(3, FREE), GIVEN, *OPTIMIZER],
    ),
    "that thread is at work": (
        ("host_bound", 3, "aten::sum", "optimizer"),
        [*BEGIN, LOCK, on(3, SUM), GIVEN, *OPTIMIZER],
    ),
    "that thread waited for one that nobody sees": (
        ("unknown", 3, None, "optimizer"),
        [*BEGIN, LOCK, on(3, QUEUE), GIVEN, *OPTIMIZER],
    ),
    "nobody is seen to give the lock back": (
        ("unknown", 1, None, "optimizer"),
        [*BEGIN, LOCK, on(3, FREE), *OPTIMIZER],
    ),
    "what was given back long before was not waited for": (
        ("unknown", 1, None, "forward"),
        [
            *[*FIRST, LOCK | {"dur": 2000}, GIVEN, on(3, call("hipFree", 104, 2000))],
            *[launch(2102, 2103, 11), kernel("second", 2110, 2120, 11)],
        ],
    ),
    "the lock of a data loader": (
        ("data_loading", 1, None, "data"),
        [
            *[*BEGIN, python("torch/utils/data/dataloader.py(9): __next__", 100, 119.7)],
            *[LOCK, on(3, FREE), GIVEN, *OPTIMIZER],
        ],
    ),
    "other ranks of a group that communicates on the host": (
        ("comm_wait", 1, None, "optimizer"),
        [
            *[*BEGIN, *OPTIMIZER, on(3, note("gloo:all_reduce", 102, 118.5))],
            python("<built-in method wait of PyCapsule object at 0x7f>", 101, 119),
        ],
    ),
    "the launch call waits for the lock of the driver": (
        ("allocator", 1, "aten::mul", "forward"),
        [*WAITING_CALL, DRIVER, SECOND],
    ),
    "the lock is of another process": (
        ("host_bound", 1, "aten::mul", "forward"),
        [*WAITING_CALL, DRIVER | {"pid": 77}, SECOND],
    ),
}


def test_who_is_waited_for_is_looked_at(tmp_path: Path) -> None:
    with opened_as_ranks(tmp_path, [events for _, events in OTHER_THREADS.values()]) as trace:
        gaps = trace.sql(
            "SELECT cause, busy_tid, name, phase FROM idle_gap AS g "
            "LEFT JOIN event AS e ON g.trace_id = e.trace_id AND op_id = e.event_id "
            "QUALIFY row_number() OVER (PARTITION BY g.trace_id ORDER BY start_ns) = 1 "
            "ORDER BY g.trace_id"
        ).rows
    found = dict(zip(OTHER_THREADS, gaps, strict=True))
    assert found == {name: expected for name, (expected, _) in OTHER_THREADS.items()}


def test_a_phase_and_a_comparison_have_the_idle_time_that_the_host_was_in_it(
    tiny_trace: Callable[..., Path],
) -> None:
    _, events = OTHER_THREADS["the thread of the nodes returns memory"]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        phases = trace.query("phases").to_dicts()
        split = trace.query("split").to_dicts()
    idle = {row["phase"]: (row["wall_ns"], row["idle_ns"]) for row in phases}
    # From 110 to 119 the node runs; what follows leads to the optimizer's launch.
    assert idle == {"forward": (10_000, 0), "backward": (0, 9_000), "optimizer": (10_000, 11_000)}
    keys = ("class", "phase", "module_path", "op", "wall_ns")
    assert [tuple(row[key] for key in keys) for row in split if row["part"] == "idle"] == [
        ("allocator", "optimizer", "(optimizer)", None, 11_000),
        ("allocator", "backward", "(unattributed)", NODE["name"], 9_000),
    ]


# -- pieces ----------------------------------------------------------------------------------------

STEPS = [note("ProfilerStep#1", 0, 30_600), note("ProfilerStep#2", 30_600, 80_000)]
OPTIMIZED = [
    *[note("Optimizer.step#SGD.step", 80, 600), launch(90, 95, 1), kernel("first", 100, 110, 1)],
]


def loss(start: float, correlation: int) -> list[Event]:
    """An op of a forward pass and its node, 100 µs later, each with a kernel of 10 µs."""
    numbered = {"Sequence number": correlation, "Fwd thread id": 0}
    back = {"Sequence number": correlation, "Fwd thread id": 1}
    return [
        on(1, span("cpu_op", "aten::mm", start, start + 20), **numbered),
        launch(start + 10, start + 15, correlation),
        kernel("gemm", start + 20, start + 30, correlation),
        on(2, span("cpu_op", NODE["name"], start + 100, start + 130), **back),
        on(2, launch(start + 110, start + 115, correlation + 1)),
        kernel("gemm", start + 120, start + 130, correlation + 1),
    ]


# Behind an optimizer 69 ms of nothing, then a forward and a backward pass.
SLEPT = [*STEPS, *OPTIMIZED, *loss(70_000, 10)]
# The same, and a function of Python has the time.
READ = [*SLEPT, python("reader.py(3): read", 610, 69_900)]
# The same, and a range names the phase.
LOADED = [*SLEPT, note("tk/phase/data", 610, 69_900)]
NOTHING = ("unknown", "nothing recorded")
BOUND = ("host_bound", "host was at work")
LOADING = ("data_loading", "host waited")
# The range of the optimizer ends at 600, that of the step at 30,600; the forward op begins at
# 70,000. From 70,030 on the host is on its way to the node, which begins at 70,100.
PIECES = {
    "slept": (
        SLEPT,
        [
            *[("optimizer", 1, *NOTHING, 490), ("other", 1, *NOTHING, 30_000)],
            *[("other", 2, *NOTHING, 39_400), ("forward", 2, *BOUND, 20)],
            *[("backward", 2, *BOUND, 70), ("backward", 2, *BOUND, 20)],
        ],
    ),
    "read": (
        READ,
        [
            *[("optimizer", 1, *NOTHING, 490), ("other", 1, *NOTHING, 10)],
            *[("other", 1, *BOUND, 29_990), ("other", 2, *BOUND, 39_400)],
            *[("forward", 2, *BOUND, 20), ("backward", 2, *BOUND, 70), ("backward", 2, *BOUND, 20)],
        ],
    ),
    "loaded": (
        LOADED,
        [
            *[("optimizer", 1, *NOTHING, 490), ("other", 1, *NOTHING, 10)],
            *[("data", 1, *LOADING, 29_990), ("data", 2, *LOADING, 39_300)],
            *[("other", 2, *LOADING, 100), ("forward", 2, *LOADING, 20)],
            *[("backward", 2, *BOUND, 70), ("backward", 2, *BOUND, 20)],
        ],
    ),
}


def test_idle_time_is_what_the_host_was_in_at_that_time(tmp_path: Path) -> None:
    with opened_as_ranks(tmp_path, [events for events, _ in PIECES.values()]) as trace:
        rows = trace.sql(
            "SELECT trace_id, phase, step, cause, reason, idle_ns / 1000 AS us "
            "FROM idle_gap ORDER BY trace_id, start_ns"
        ).rows
        windows = trace.sql(
            "SELECT trace_id, window_ns - busy_ns FROM device_windows ORDER BY trace_id"
        ).rows
        idle = trace.sql("SELECT trace_id, sum(idle_ns) FROM idle_gap GROUP BY ALL ORDER BY 1").rows
    assert idle == windows
    for number, (which, (_, expected)) in enumerate(PIECES.items()):
        found = [tuple(row[1:]) for row in rows if row[0] == number]
        assert found == expected, which
