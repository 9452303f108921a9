"""The critical path of every trace adds up to its window; small ones: critical_path.case."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from every_trace import PATHS, on_every_trace, on_some_traces

import tracekit

Opened = Callable[[Path], tracekit.Trace]


@on_every_trace
def test_the_path_of_each_rank_is_its_window(opened: Opened, path: Path) -> None:
    trace = opened(path)
    windows = dict(
        trace.sql(
            "SELECT trace_id, max(end_ns) - min(start_ns) FROM device_windows GROUP BY trace_id"
        ).rows
    )
    pieces: dict[int, list[tuple[int, int]]] = {}
    for trace_id, start_ns, end_ns in trace.sql(
        "SELECT trace_id, start_ns, end_ns FROM path_piece ORDER BY trace_id, position"
    ).rows:
        pieces.setdefault(trace_id, []).append((start_ns, end_ns))
    assert {one: found[-1][1] - found[0][0] for one, found in pieces.items()} == windows
    for found in pieces.values():
        assert all(start < end for start, end in found)
        assert all(before[1] == after[0] for before, after in pairwise(found))
    by_what = ("kind", "phase", "module", "class", "op", "name", "rank", "known_by")
    for by in by_what if path == PATHS[0] else ("module",):
        assert sum(trace.query("path_totals", by=by).column("path_ns")) == sum(windows.values()), by


@on_some_traces
def test_what_is_replayed_without_a_group_ends_earlier_or_as_it_did(
    opened: Opened, path: Path
) -> None:
    trace = opened(path)
    for row in trace.query("slack", by="kernel").to_dicts():
        assert row["gain_ns"] >= 0, row
        # Work with slack is not on a path, so it has no gain alone.
        assert row["slack_ns"] == 0 or row["path_ns"] == 0, row


@on_every_trace
def test_every_work_waits_for_something(opened: Opened, path: Path) -> None:
    trace = opened(path)
    assert (
        trace.sql(
            "SELECT event_id FROM graph_span WHERE span_id * 2 NOT IN "
            "(SELECT target_node FROM graph_edge WHERE is_binding)"
        ).rows
        == []
    )
    counts = trace.sql(
        "SELECT (SELECT count(*) FROM device_events), "
        "(SELECT count(*) FROM graph_span WHERE kind = 'work'), "
        "(SELECT count(*) FROM launch_link WHERE link = 'launch'), "
        "(SELECT count(*) FROM graph_edge WHERE kind = 'launch')"
    ).rows[0]
    assert counts[0] == counts[1]
    assert counts[2] == counts[3]
