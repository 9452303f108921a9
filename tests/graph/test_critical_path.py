"""On every trace: the critical path adds up to its window, and the replay gives the run back."""

from itertools import pairwise

import pytest
from every_trace import BUNDLED, PATHS, on_every_trace, on_some_traces

from tracekit.analysis.passes.graph_sweeps import REPLAY, create_swept


@on_every_trace
def test_the_path_of_each_rank_is_its_window(opened, path):
    trace = opened(path)
    windows = dict(
        trace.sql(
            "SELECT trace_id, max(end_ns) - min(start_ns) FROM device_windows GROUP BY trace_id"
        ).rows
    )
    pieces = {}
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
def test_gains_are_not_negative_and_work_with_slack_is_not_on_a_path(opened, path):
    trace = opened(path)
    for row in trace.query("slack", by="kernel").to_dicts():
        assert row["gain_ns"] >= 0, row
        # Work with slack is not on a path, so it has no gain alone.
        assert row["slack_ns"] == 0 or row["path_ns"] == 0, row


@on_every_trace
def test_every_work_waits_for_something(opened, path):
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


WORST_PCT = 3.3
EDGES = "SELECT edge_id, source_node, target_node, {weight}, target_ns, 0 FROM graph_edge"


def replayed(trace, weight):
    """When each node comes if edges have these weights."""
    connection = trace.connection
    trace.sql("SELECT 1 FROM graph_edge LIMIT 1")
    statement = EDGES.format(weight=weight) + " ORDER BY edge_id"
    create_swept(connection, "session.main.tried", REPLAY, statement)
    return dict(connection.execute("SELECT node, at_ns FROM session.main.tried").fetchall())


@on_every_trace
def test_the_unchanged_run_comes_back(opened, path):
    for row in opened(path).query("replay").to_dicts():
        share = 100 * row["unexplained_ns"] / row["recorded_ns"]
        assert abs(row["error_pct"]) <= WORST_PCT + share, row


@pytest.mark.nightly("all bundled traces; the error of each of the gate is bounded above")
def test_the_mean_error_is_small(opened):
    bundled = [path for path in BUNDLED if path in PATHS]
    rows = [row for path in bundled for row in opened(path).query("replay").to_dicts()]
    errors = [
        abs(row["error_pct"]) for row in rows if row["unexplained_ns"] <= 0.05 * row["recorded_ns"]
    ]
    assert sum(errors) / len(errors) <= 1


@on_every_trace
def test_weights_with_rests_reproduce_the_recorded_times(opened, path):
    trace = opened(path)
    recorded = dict(
        trace.sql(
            "SELECT target_node, target_ns - (SELECT min(start_ns) FROM graph_span) "
            "FROM graph_edge GROUP BY ALL"
        ).rows
    )
    found = replayed(trace, "weight_ns + rest_ns")
    # With clock offsets between ranks, events of other ranks may be too late.
    if trace.sql("SELECT count(*) FROM trace").rows == [(1,)]:
        assert {node: found[node] for node in recorded} == recorded
    twice = replayed(trace, "2 * (weight_ns + rest_ns)")
    assert twice == {node: 2 * at_ns for node, at_ns in found.items()}
