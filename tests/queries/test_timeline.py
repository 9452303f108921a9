"""The timeline: each nanosecond of the window is accounted for exactly once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cases_as_ranks import AskedByRank, Cases
from traces_by_hand import kernel as work

import tracekit

Write = Callable[..., Path]
COMPUTE, COMM, COPY = "my_gemm", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "Memcpy HtoD"
KIND = {COMPUTE: "compute", COMM: "comm", COPY: "memcpy"}
RANK = ["compute", "comm", "memcpy"]


CASES = Cases()
asked = CASES.fixture()


def job(rank: int) -> dict[str, Any]:
    return {"distributedInfo": {"rank": rank, "world_size": 1}}


def test_a_few_events(tiny_trace: Write) -> None:
    """Compute 0-10 and 30-40, comm 5-20, copies 15-25 and 32-35, nothing 25-30."""
    events = [
        work(COMPUTE, 0, 10),
        work(COMM, 5, 20, stream=8),
        work(COPY, 15, 25, stream=9),
        work(COMPUTE, 30, 40),
        work(COPY, 32, 35, stream=9),
    ]
    with tracekit.open(tiny_trace(events, **job(3)), cache=False) as trace:
        result = trace.query("timeline")
        assert result.column_names == (
            "rank", "device", "window_ns", "compute_ns", "exposed_comm_ns", "exposed_memcpy_ns",
            "idle_ns", "busy_ns", "comm_ns", "memcpy_ns", "overlapped_comm_pct", "event_count",
            "compute_pct", "exposed_comm_pct", "exposed_memcpy_pct", "idle_pct",
        )  # fmt: skip
        assert result.rows == [
            (
                *(3, "0", 40_000, 20_000, 10_000, 5_000, 5_000, 35_000, 15_000, 13_000),
                *(100 / 3, 5, 50.0, 25.0, 12.5, 12.5),
            )
        ]


OTHERS = CASES.add(
    [
        {**work("wait", 0, 100), "cat": "cuda_sync"},
        {**work("range", 0, 100), "cat": "gpu_user_annotation"},
        {**work("cudaLaunchKernel", 0, 100), "cat": "cuda_runtime"},
        {**work("aten::mm", 0, 100), "cat": "cpu_op"},
        {**work("PyTorch Profiler (0)", 0, 100), "cat": "Trace"},
        work(COMPUTE, 40, 50),
    ]
)


def test_what_is_no_work_of_the_device_is_left_out(asked: AskedByRank) -> None:
    (row,) = asked.rows(OTHERS, "timeline")
    assert (row["window_ns"], row["busy_ns"], row["event_count"]) == (10_000, 10_000, 1)


ODD_WINDOWS: list[tuple[list[dict[str, Any]], tuple[Any, ...]]] = [
    ([work(COMPUTE, 5, 5)], (0, 0, 0, None, 1)),
    ([work(COMM, 5, 5), work(COMPUTE, 9, 9)], (4_000, 0, 0, None, 2)),
    ([work(COMM, 5, 9)], (4_000, 4_000, 4_000, 0.0, 1)),
    ([work(COMM, 5, 9), work(COMPUTE, 5, 9)], (4_000, 4_000, 4_000, 100.0, 2)),
    ([work(COMPUTE, 0, 5), work(COMPUTE, 5, 9)], (9_000, 9_000, 0, None, 2)),
]


ODD_RANKS = [CASES.add(events) for events, _ in ODD_WINDOWS]


def test_odd_windows(asked: AskedByRank) -> None:
    names = ("window_ns", "busy_ns", "comm_ns", "overlapped_comm_pct", "event_count")
    for rank, (events, figures) in zip(ODD_RANKS, ODD_WINDOWS, strict=True):
        (row,) = asked.rows(rank, "timeline")
        assert tuple(row[name] for name in names) == figures, events


OTHER_CATEGORIES = CASES.add(
    [
        {**work("volta_sgemm", 0, 4), "cat": "Kernel"},
        {**work("Memcpy HtoD (Pageable -> Device)", 4, 6), "cat": "Memcpy"},
        {**work("Memset (Device)", 6, 7), "cat": "Memset"},
        {**work("fused", 7, 9), "cat": "mtia_ccp_events", "args": {"device": 0}},
    ]
)


def test_old_and_other_categories(asked: AskedByRank) -> None:
    (row,) = asked.rows(OTHER_CATEGORIES, "timeline")
    assert (row["compute_ns"], row["memcpy_ns"], row["event_count"]) == (7_000, 2_000, 4)


WITHOUT_DEVICE = CASES.add([{**work("x", 0, 1), "cat": "python_function"}])


def test_no_device_event_no_row(asked: AskedByRank) -> None:
    for analysis in ("timeline", "kernel_classes", "kernels"):
        assert asked.rows(WITHOUT_DEVICE, analysis) == []


# -- against a sweep that looks at every nanosecond ------------------------------------------------

Event = tuple[str, int, int, int]


def by_nanosecond(events: list[Event]) -> tuple[dict[str, int], list[int], list[int]]:
    """The timeline of one device, and for each event its part of it and of its kind's union."""
    start, end = min(e[1] for e in events), max(e[2] for e in events)
    line = dict.fromkeys(["compute", "comm", "memcpy", "exposed_comm", "exposed_memcpy"], 0)
    line |= {"window": end - start, "idle": 0, "overlapped": 0}
    wall, kind_wall = [0] * len(events), [0] * len(events)
    for now in range(start, end):
        running = [at for at, e in enumerate(events) if e[1] <= now < e[2]]
        kinds = {KIND[events[at][0]] for at in running}
        for kind in kinds:
            line[kind] += 1
            same = [at for at in running if KIND[events[at][0]] == kind]
            kind_wall[min(same, key=lambda at: (*events[at][1:], at))] += 1
        line["overlapped"] += {"compute", "comm"} <= kinds
        if not running:
            line["idle"] += 1
            continue
        best = min(kinds, key=RANK.index)
        if best != "compute":
            line[f"exposed_{best}"] += 1
        first = [at for at in running if KIND[events[at][0]] == best]
        wall[min(first, key=lambda at: (*events[at][1:], at))] += 1
    return line, wall, kind_wall


def test_against_every_nanosecond(tiny_trace: Write) -> None:
    """Each device is a case of its own: events of three kinds on several streams."""
    chance = random.Random(2)
    cases: list[list[Event]] = []
    for _ in range(250):
        count, length = chance.randint(1, 12), chance.choice([3, 10, 40])
        case = []
        for _ in range(count):
            start = chance.randint(0, 50)
            end = start + chance.randint(0, length)
            case.append((chance.choice(list(KIND)), start, end, chance.randint(1, 3)))
        cases.append(case)
    base = 1_694_128_201_545_123  # Epoch µs: a double would lose the nanoseconds.
    texts = []
    for device, case in enumerate(cases):
        for name, start, end, stream in case:
            category = "gpu_memcpy" if name == COPY else "kernel"
            texts.append(
                f'{{"ph":"X","cat":"{category}","name":"{name}","pid":{device},"tid":7,'
                f'"ts":{base}.{start:03},"dur":0.{end - start:03},'
                f'"args":{{"device":{device},"stream":{stream}}}}}'
            )
    with tracekit.open(tiny_trace("[" + ",\n".join(texts) + "]"), cache=False) as trace:
        rows = {int(row["device"]): row for row in trace.query("timeline").to_dicts()}
        parts: dict[int, list[tuple[int, int]]] = {}
        for device, wall_ns, kind_wall_ns in trace.sql(
            "SELECT device::INTEGER, wall_ns, kind_wall_ns FROM device_events ORDER BY event_id"
        ).rows:
            parts.setdefault(device, []).append((wall_ns, kind_wall_ns))
    assert len(rows) == len(cases)
    for device, case in enumerate(cases):
        line, wall, kind_wall = by_nanosecond(case)
        row = rows[device]
        assert {
            "window": row["window_ns"],
            "compute": row["compute_ns"],
            "comm": row["comm_ns"],
            "memcpy": row["memcpy_ns"],
            "exposed_comm": row["exposed_comm_ns"],
            "exposed_memcpy": row["exposed_memcpy_ns"],
            "idle": row["idle_ns"],
            "overlapped": row["comm_ns"] - row["exposed_comm_ns"],
        } == line, case
        assert row["busy_ns"] == line["window"] - line["idle"]
        if line["comm"]:
            assert row["overlapped_comm_pct"] == 100 * line["overlapped"] / line["comm"]
        else:
            assert row["overlapped_comm_pct"] is None
        assert parts[device] == list(zip(wall, kind_wall, strict=True)), case
