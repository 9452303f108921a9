"""The sweep over devices, against every nanosecond."""

import random

import tracekit

COMPUTE, COMM, COPY = "my_gemm", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "Memcpy HtoD"
KIND = {COMPUTE: "compute", COMM: "comm", COPY: "memcpy"}
RANK = ["compute", "comm", "memcpy"]


def by_nanosecond(events):
    """Return the timeline of a device, and each event's share of it and of its kind's union."""
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


def test_devices_against_every_nanosecond(tiny_trace):
    """Each device is a separate case: events of three kinds on several streams."""
    chance = random.Random(2)
    cases = []
    for _ in range(250):
        count, length = chance.randint(1, 12), chance.choice([3, 10, 40])
        case = []
        for _ in range(count):
            start = chance.randint(0, 50)
            end = start + chance.randint(0, length)
            case.append((chance.choice(list(KIND)), start, end, chance.randint(1, 3)))
        cases.append(case)
    base = 1_694_128_201_545_123  # Epoch µs: a double would lose the nanoseconds.
    texts = [
        f'{{"ph":"X","cat":"{"gpu_memcpy" if name == COPY else "kernel"}","name":"{name}",'
        f'"pid":{device},"tid":7,"ts":{base}.{start:03},"dur":0.{end - start:03},'
        f'"args":{{"device":{device},"stream":{stream}}}}}'
        for device, case in enumerate(cases)
        for name, start, end, stream in case
    ]
    with tracekit.open(tiny_trace("[" + ",\n".join(texts) + "]"), cache=False) as trace:
        rows = {int(row["device"]): row for row in trace.query("timeline").to_dicts()}
        parts = {}
        for device, wall_ns, kind_wall_ns in trace.sql(
            "SELECT device::INTEGER, wall_ns, kind_wall_ns FROM device_events ORDER BY event_id"
        ).rows:
            parts.setdefault(device, []).append((wall_ns, kind_wall_ns))
    assert len(rows) == len(cases)
    for device, case in enumerate(cases):
        line, wall, kind_wall = by_nanosecond(case)
        row = rows[device]
        same = set(line) - {"overlapped"}
        assert {name: row[f"{name}_ns"] for name in same} == {name: line[name] for name in same}
        assert row["comm_ns"] - row["exposed_comm_ns"] == line["overlapped"], case
        assert row["busy_ns"] == line["window"] - line["idle"]
        overlapped_pct = 100 * line["overlapped"] / line["comm"] if line["comm"] else None
        assert row["overlapped_comm_pct"] == overlapped_pct
        assert parts[device] == list(zip(wall, kind_wall, strict=True)), case
