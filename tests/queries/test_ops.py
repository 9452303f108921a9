"""Analyses ops, op_arguments and op_kernels, and the table that they are made of."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import AskedByRank, Cases
from every_trace import Answered, on_every_trace
from traces_by_hand import Event, kernel, span, work

import tracekit

FIGURES = (
    *("op_count", "host_ns", "self_host_ns", "kernel_count"),
    *("kernel_ns", "wall_ns", "direct_kernel_ns", "direct_wall_ns"),
)
CASES = Cases()
asked = CASES.fixture()


def op(name: str, start: float, end: float, tid: int = 1, **args: Any) -> Event:
    return span("cpu_op", name, start, end, tid, **args)


# A linear of 10 µs holds an addmm, which launches 5 µs of work, and launches 3 µs itself: on
# another stream, 2 µs of it under the addmm's. The last work of 4 µs is launched in no op.
NESTED = CASES.add(
    [
        op("aten::linear", 0, 10, **{"Input Dims": [[2, 4], [3, 4]], "Input type": ["float"] * 2}),
        op("aten::addmm", 1, 5, **{"Input Dims": [[3], [2, 4], [4, 3]]}),
        *work(2, 20, 25, 1, "gemm"),
        *work(6, 22, 24, 2, "ncclDevKernel_AllReduce"),
        kernel("ncclDevKernel_AllReduce", 30, 31, 2, stream=20),
        *work(12, 40, 44, 3, "add"),
    ]
)


def test_an_op_has_what_it_and_its_children_launched(asked: AskedByRank) -> None:
    rows = [tuple(row[column] for column in ("op", *FIGURES)) for row in asked.rows(NESTED, "ops")]
    assert rows == [
        ("aten::addmm", 1, 4_000, 4_000, 1, 5_000, 5_000, 5_000, 5_000),
        (None, 0, 0, 0, 1, 4_000, 4_000, 4_000, 4_000),
        ("aten::linear", 1, 10_000, 6_000, 3, 8_000, 6_000, 3_000, 1_000),
    ]


def test_arguments_and_the_op_around(asked: AskedByRank) -> None:
    rows = asked.rows(NESTED, "op_arguments", within="op")
    assert [(row["op"], row["shapes"], row["types"], row["around"]) for row in rows] == [
        ("aten::addmm", "[[3],[2,4],[4,3]]", None, "aten::linear"),
        ("aten::linear", "[[2,4],[3,4]]", '["float","float"]', None),
    ]


def test_kernels_of_an_op(asked: AskedByRank) -> None:
    rows = asked.rows(NESTED, "op_kernels", op="aten::linear")
    assert [(row["name"], row["op_count"], row["kernel_count"]) for row in rows] == [
        ("ncclDevKernel_AllReduce", 1, 2)
    ]


# An op in itself, and beside itself on another thread; one of no length at the end.
RECURSIVE = CASES.add(
    [
        op("f", 0, 10),
        op("f", 2, 8),
        *work(3, 20, 22, 1),
        op("f", 0, 4, tid=2),
        op("f", 10, 10),
        *work(11, 30, 31, 2),
    ]
)


def test_what_lies_in_two_calls_of_an_op_counts_once(asked: AskedByRank) -> None:
    row = next(row for row in asked.rows(RECURSIVE, "ops") if row["op"] == "f")
    assert (row["op_count"], row["host_ns"], row["self_host_ns"]) == (4, 14_000, 14_000)
    assert (row["kernel_count"], row["kernel_ns"]) == (1, 2_000)


@on_every_trace
def test_own_figures_add_up(answered: Answered, path: Path) -> None:
    ask = answered(path)
    rows = ask("ops", limit=0).to_dicts()
    timeline = ask("timeline").to_dicts()
    assert sum(row["direct_wall_ns"] for row in rows) == sum(row["busy_ns"] for row in timeline)
    by_arguments = ask("op_arguments", limit=0).to_dicts()
    for name in ("op_count", "self_host_ns", "direct_kernel_ns"):
        assert sum(row[name] for row in rows if row["op"]) == sum(row[name] for row in by_arguments)


PROGRAM = """
import json, sys, torch
from torch.profiler import ProfilerActivity, profile

layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
model = torch.nn.Sequential(torch.nn.Embedding(50, 16), layer, torch.nn.Linear(16, 50))
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(0, 50, (2, 8))
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
profiler.export_chrome_trace(sys.argv[1])
rows = [
    (by_shape, row.key, row.input_shapes if by_shape else None, row.count)
    + (row.cpu_time_total, row.self_cpu_time_total)
    for by_shape in (False, True)
    for row in profiler.key_averages(group_by_input_shape=by_shape)
    if not row.is_user_annotation
]
print(json.dumps(rows))
"""


def test_torch_says_the_same(python: Callable[[str], str], tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    done = subprocess.run(
        [python("eager"), "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    with tracekit.open(path, cache=False) as trace:
        ours: dict[tuple[str, str | None], list[int]] = {}
        for by_shape, name in ((False, "ops"), (True, "op_arguments")):
            for row in trace.query(name, limit=0).to_dicts():
                shapes = json.dumps(json.loads(row["shapes"] or "[]")) if by_shape else None
                sums = ours.setdefault((row["op"], shapes), [])
                sums += [row[column] for column in ("op_count", "self_host_ns", "host_ns")]
    assert len(theirs) > 200
    folded = set()
    for by_shape, name, shapes, count, host_us, self_us in theirs:
        own = ours.pop((name, json.dumps(shapes) if by_shape else None))
        # Torch's times are doubles of µs, and its table tells no types apart.
        assert sum(own[1::3]) == pytest.approx(self_us * 1e3, abs=0.01 * count)
        if len(own) == 3:
            assert own[2] == pytest.approx(host_us * 1e3, abs=0.01 * count)
        if sum(own[::3]) != count:
            folded.add(name)
    # Torch's table makes one call of two where an op does nothing but call itself.
    assert folded <= {"aten::mul", "aten::div_"}
    assert ours == {}
