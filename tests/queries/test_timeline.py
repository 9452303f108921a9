"""The sweeps over devices and threads, against every nanosecond and against stacks."""

import random
from collections import defaultdict
from typing import NamedTuple

import tracekit

COMPUTE, COMM, COPY = "my_gemm", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "Memcpy HtoD"
KIND = {COMPUTE: "compute", COMM: "comm", COPY: "memcpy"}
RANK = ["compute", "comm", "memcpy"]


def by_nanosecond(events):
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


def test_devices_against_every_nanosecond(tiny_trace):
    """Each device is a case of its own: events of three kinds on several streams."""
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


class Op(NamedTuple):
    tid: int
    start_us: int
    end_us: int
    name: str = "aten::mm"
    category: str = "cpu_op"

    @property
    def event(self):
        place = {"ph": "X", "cat": self.category, "name": self.name, "pid": 1, "tid": self.tid}
        return place | {"ts": self.start_us, "dur": self.end_us - self.start_us}

    @property
    def is_collective(self):
        return self.name.startswith("c10d::") or self.category == "user_annotation"

    @property
    def is_work(self):
        return self.is_collective or (
            "::" in self.name and not self.name.startswith(("autograd::", "torch::autograd::"))
        )


def by_stack(ops):
    """The times of each op of one thread, whose ops nest: of all that are open, the innermost."""
    owned = defaultdict(set)
    # Of equal ones a range is outside of an op, and of ops without a number the name decides.
    order = sorted(range(len(ops)), key=lambda at: ops[at].name, reverse=True)
    order.sort(key=lambda at: (ops[at].start_us, -ops[at].end_us, ops[at].category == "cpu_op"))
    for now in range(min(op.start_us for op in ops), max(op.end_us for op in ops)):
        stack = []
        for at in order:
            inside_collective = bool(stack) and ops[stack[-1]].is_collective
            if ops[at].start_us <= now < ops[at].end_us and not inside_collective:
                stack.append(at)
        if stack and ops[stack[-1]].is_work:
            owned[stack[-1]].add(now)
    return owned


def nested(chance, tid):
    """Ops of one thread that nest cleanly, collectives and nodes of autograd among them."""
    names = ["aten::mm", "aten::add", "autograd::engine::evaluate_function: X", "MyRange"]
    names += ["torch::autograd::AccumulateGrad", "c10d::allreduce_", "aten::to"]
    ops = []

    def put(start, end, depth):
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


def owned_times(write, ops):
    """Return the µs that table cpu_work gives each op; none is given twice."""
    found = defaultdict(set)
    with tracekit.open(write([op.event for op in ops]), cache=False) as trace:
        for at, start_ns, dur_ns in trace.sql("SELECT event_id, ts_ns, dur_ns FROM cpu_work").rows:
            times = set(range(start_ns // 1000, (start_ns + dur_ns) // 1000))
            assert times
            assert not times & found[at]
            found[at] |= times
    return found


def test_every_time_of_a_thread_has_the_innermost_op(tiny_trace):
    chance = random.Random(11)
    threads = [nested(chance, tid) for tid in range(120)]
    found = owned_times(tiny_trace, [op for thread in threads for op in thread])
    expected = {}
    first = 0
    for thread in threads:
        if thread:
            expected |= {first + at: times for at, times in by_stack(thread).items()}
        first += len(thread)
    assert found == expected


def test_ops_that_do_not_nest_lose_nothing(tiny_trace):
    """Rounding makes children end after their parents: no time is lost, none counts twice."""
    chance = random.Random(5)
    ops = []
    for tid in range(150):
        for _ in range(chance.randint(1, 12)):
            start = chance.randint(0, 30)
            name = chance.choice(["aten::mm"] * 4 + ["c10d::allreduce_"])
            ops.append(Op(tid, start, start + chance.randint(0, 12), name))
    times = owned_times(tiny_trace, ops)
    found = [(ops[at].tid, now) for at, owned in times.items() for now in owned]
    assert len(set(found)) == len(found)
    assert set(found) == {(op.tid, now) for op in ops for now in range(op.start_us, op.end_us)}


def test_nesting_is_what_a_stack_would_say(tiny_trace):
    numbers = random.Random(7)
    spans = []
    for number in range(200):
        tid, start = numbers.randint(1, 2), numbers.randint(0, 300)
        spans.append(Op(tid, start, start + numbers.randint(0, 60), f"op{number}"))
    order = sorted(range(200), key=lambda at: (spans[at].start_us, -spans[at].end_us, at))
    wanted = {}
    for place, inner in enumerate(order):
        mine = spans[inner]
        before = (spans[at] for at in order[:place])
        is_open = [o.name for o in before if o.tid == mine.tid and o.end_us > mine.start_us]
        wanted[mine.name] = (is_open[-1] if is_open else None, len(is_open))
    with tracekit.open(tiny_trace([one.event for one in spans]), cache=False) as trace:
        rows = trace.sql(
            "SELECT e.name, p.name, n.depth FROM nesting AS n"
            " JOIN event AS e USING (trace_id, event_id)"
            " LEFT JOIN event AS p ON n.trace_id = p.trace_id AND n.parent_id = p.event_id"
        ).rows
    assert {name: (parent, depth) for name, parent, depth in rows} == wanted
