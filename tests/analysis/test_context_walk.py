"""The walk over host threads: limits; see also `ingest_context_walk.case`."""

from itertools import product

from traces_by_hand import call, kernel, span

import tracekit


def work(at, correlation=1, tid=1):
    """Return a launch without duration and its kernel."""
    return [call(at, at, correlation, tid=tid), kernel("k", at + 1e6, at + 1e6 + 1, correlation)]


def test_the_number_of_modules_is_bounded(tiny_trace):
    events = [span("user_annotation", "all", 0, 1000)]
    events += [span("user_annotation", f"request {i}", 10 * i, 10 * i + 5) for i in (1, 2)]
    names = ("".join(letters) for letters in product("abcdefghijklmnopqrstuvwxyz", repeat=4))
    events += [span("user_annotation", next(names), 2000 + i, 2001 + i) for i in range(50_010)]
    events += [*work(11), *work(21, 2), *work(2000.5, 3), *work(52_009.5, 4)]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        assert trace.sql("SELECT count(*) FROM module").rows == [(50_000,)]
        rows = trace.sql("SELECT module_path, kernel_count FROM module_totals ORDER BY ALL").rows
        assert rows == [("(unattributed)", 1), ("aaaa", 1), ("all", 0), ("all/request *", 2)]
