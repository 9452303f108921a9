"""Of forward ops with one number that begin at once, the innermost is the one of the node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from traces_by_hand import call, kernel, span

import tracekit

PAIRS = 40


@pytest.mark.parametrize("is_outer_first", [True, False])
def test_the_order_in_the_file_decides_nothing(
    tiny_trace: Callable[..., Path], *, is_outer_first: bool
) -> None:
    events = []
    for number in range(PAIRS):
        at = 10 * number
        told = {"Sequence number": number, "Fwd thread id": 0}
        pair = [
            span("cpu_op", "aten::linear", at, at + 8, **told),
            span("cpu_op", "aten::addmm", at, at + 4, **told),
        ]
        events += pair if is_outer_first else reversed(pair)
        begin = 1000 + 10 * number
        told["Fwd thread id"] = 1
        events.append(span("cpu_op", "AddmmBackward0", begin, begin + 6, tid=3, **told))
        events.append(call(begin + 1, begin + 2, number + 1, tid=3))
        events.append(kernel("gemm", begin + 2, begin + 4, number + 1))
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        found = trace.sql(
            "SELECT f.name, count(*) FROM surroundings AS s JOIN event AS f"
            " ON s.trace_id = f.trace_id AND s.forward_op_id = f.event_id"
            " JOIN launch AS l ON s.event_id = l.launch_id GROUP BY f.name"
        ).rows
    assert found == [("aten::addmm", PAIRS)]
