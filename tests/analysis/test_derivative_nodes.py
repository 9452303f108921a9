"""Derivatives of very high order; the others are cases (tests/cases/derivatives.case)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from traces_by_hand import Event, span

import tracekit


def derivative(order: int) -> list[Event]:
    """Return a node of autograd, the engine's call of it, and an op that has a number again."""
    start, number = 100 * order, {"Sequence number": 2 * order - 1, "Fwd thread id": 1}
    again = {"Sequence number": 2 * order + 1, "Fwd thread id": 0}
    around = "autograd::engine::evaluate_function: MmBackward0"
    return [
        span("cpu_op", around, start, start + 50, **number),
        span("cpu_op", "MmBackward0", start + 1, start + 49, **number),
        span("cpu_op", "aten::mm", start + 21, start + 40, **again),
    ]


def test_derivatives_of_very_high_order_are_not_followed(tiny_trace: Callable[..., Path]) -> None:
    """To follow each of a long chain takes the square of its length."""
    first = {"Sequence number": 1, "Fwd thread id": 0}
    events = [
        span("python_function", "nn.Module: Linear_0", 0, 30),
        span("cpu_op", "aten::linear", 1, 20, **first),
        *(event for order in range(1, 13) for event in derivative(order)),
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        places = trace.sql(
            "SELECT e.phase, coalesce(path, row_name) FROM attributed_events AS e "
            "LEFT JOIN module USING (trace_id, module_id) "
            "WHERE e.name = 'aten::mm' AND piece = 0 ORDER BY e.ts_ns"
        ).rows
    assert places[:8] == [("backward", "Linear_0")] * 8
    assert {place for _, place in places[8:]} == {"(loss)"}
