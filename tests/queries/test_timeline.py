"""The timeline: each nanosecond of the window is accounted for exactly once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import tracekit

Write = Callable[..., Path]
COMPUTE, COMM, COPY = "my_gemm", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "Memcpy HtoD"
KIND = {COMPUTE: "compute", COMM: "comm", COPY: "memcpy"}
RANK = ["compute", "comm", "memcpy"]


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
