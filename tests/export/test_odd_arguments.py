"""Arguments of ops that are not what they should be: nothing is known then, and nothing fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.export.chrome import export_chrome
from tracekit.export.perfetto import export_perfetto

MEMBERS = ["Input Dims", "Input type", "Concrete Inputs", "Input Strides"]


@pytest.mark.parametrize("said", ["no JSON", "[1,", {"a": 1}, 7, [[1, "a"], {"b": [2]}]])
def test_an_odd_argument_takes_nothing_from_other_ops(
    tiny_trace: Callable[..., Path], said: Any
) -> None:
    shapes = {"Input Dims": [[4, 8], [8, 16]], "Input type": ["float", "float"]}
    events = []
    for number, member in enumerate([None, *MEMBERS]):
        at = 20 * number
        args = shapes if member is None else {**shapes, member: said}
        events += [
            span("cpu_op", "aten::mm", at, at + 10, **args),
            call(at + 1, at + 3, number + 1),
            kernel("gemm", at + 4, at + 9, number + 1),
        ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        flops = [row["flops"] for row in trace.query("gemms").to_dicts() if row["flops"]]
        assert sum(flops) >= 2 * 4 * 8 * 16
        for name in ("mfu", "compute_memory"):
            trace.query(name)
        for export in (export_perfetto, export_chrome):
            blocks: list[bytes] = []
            assert export(trace, blocks.append).event_count == 15
            assert b'"op_flops":1024' in b"".join(blocks)
