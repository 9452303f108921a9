"""The walk over host threads: random spans, and limits; see also `ingest_context_walk.case`."""

from traces_by_hand import call, kernel, span

import tracekit


def work(at, correlation=1, tid=1):
    """Return a launch without duration and its kernel."""
    return [call(at, at, correlation, tid=tid), kernel("k", at + 1e6, at + 1e6 + 1, correlation)]


def test_the_number_of_modules_is_bounded(tiny_trace):
    events = [span("user_annotation", "all", 0, 1e6)]
    events += [span("user_annotation", f"request {i}", 10 * i, 10 * i + 5) for i in range(50_010)]
    with tracekit.open(tiny_trace(events + work(500_051)), cache=False) as trace:
        assert trace.sql("SELECT count(*) FROM module").rows == [(50_000,)]
        assert trace.query("modules").column("module_path") == ["all"]
