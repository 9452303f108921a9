"""The walk over host threads: random spans, and limits; see also `ingest_context_walk.case`."""

import pytest
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.analysis import context_walk, walked_modules


def work(at, correlation=1, tid=1):
    """Return a launch without duration and its kernel."""
    return [call(at, at, correlation, tid=tid), kernel("k", at + 1e6, at + 1e6 + 1, correlation)]


def test_the_number_of_modules_is_bounded(tiny_trace, monkeypatch):
    monkeypatch.setattr(walked_modules, "MAX_MODULES", 5)
    events = [span("user_annotation", "all", 0, 1000)]
    events += [span("user_annotation", f"request {i}", 10 * i, 10 * i + 5) for i in range(20)]
    with tracekit.open(tiny_trace(events + work(151)), cache=False) as trace:
        assert trace.sql("SELECT count(*) FROM module").rows == [(5,)]
        assert trace.query("modules").column("module_path") == ["all"]


def test_an_interrupt_ends_the_walk(tiny_trace, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(context_walk, "_inside", fail)
    path = tiny_trace([span("python_function", "nn.Module: Linear_0", 1, 5)])
    with tracekit.open(path, cache=False) as trace, pytest.raises(KeyboardInterrupt):
        trace.sql("FROM attribution")


def derivative(order):
    """Return an autograd node, its call by the engine, and an op with a new sequence number."""
    start, number = 100 * order, {"Sequence number": 2 * order - 1, "Fwd thread id": 1}
    again = {"Sequence number": 2 * order + 1, "Fwd thread id": 0}
    around = "autograd::engine::evaluate_function: MmBackward0"
    return [
        span("cpu_op", around, start, start + 50, **number),
        span("cpu_op", "MmBackward0", start + 1, start + 49, **number),
        span("cpu_op", "aten::mm", start + 21, start + 40, **again),
    ]


def test_derivatives_of_high_order_are_not_followed(tiny_trace):
    """Following a long chain takes quadratic time; `derivatives.case` has the short ones."""
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
