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
