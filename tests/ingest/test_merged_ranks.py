"""A file with the merged traces of several ranks is split into one trace per rank."""

import pytest
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.ingest.formats.merged_ranks import ranks_of


def rank_events(prefix, gemm_us):
    """Return an op, its launch and its kernel, with the ids that every rank has."""
    events = [
        span("cpu_op", "aten::mm", 0, 30, 83, pid=83, **{"External id": 1}),
        {**call(5, 10, 1, tid=83), "pid": 83},
        kernel("gemm", 20, 20 + gemm_us, 1),
    ]
    for event in events:
        event["pid"] = f"{prefix}{event['pid']}"
    return events


@pytest.mark.parametrize(
    "prefix",
    ["[TP0{}-DP00-PP00-EP00] ", "[TP0{}] ", "rank{}: ", "rank{}_", "[rank {}] ", "Rank {} "],
)
def test_each_rank_has_its_own_devices_and_launches(prefix, tiny_trace):
    path = tiny_trace([*rank_events(prefix.format(0), 100), *rank_events(prefix.format(1), 300)])
    with tracekit.open(path, cache=False) as trace:
        assert trace.query("timeline").column("rank") == [0, 1]
        assert trace.query("timeline").column("busy_ns") == [100_000, 300_000]
        rows = trace.sql(
            "SELECT rank, rank_source, event_count, complete_count, last_end_ns FROM trace "
            "ORDER BY trace_id"
        ).rows
        assert rows == [(0, "process ids", 3, 3, 120_000), (1, "process ids", 3, 3, 320_000)]
        linked = trace.sql("SELECT count(*) FROM attribution WHERE op_name = 'aten::mm'").rows
        assert linked == [(2,)]
        # Process ids are restored by removing the rank.
        assert trace.sql("SELECT DISTINCT pid FROM event ORDER BY pid").rows == [(0,), (83,)]


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (["rank 3", "rank 12"], [3, 12]),
        (["TP00-PP00", "TP00-PP01", "TP01-PP00", "TP01-PP01"], [0, 2, 1, 3]),
        (["TP0-DP0-PP0-EP0", "TP0-DP1-PP0-EP0"], [0, 1]),
        (["DP03"], [0]),
    ],
)
def test_ranks_follow_from_parallel_groups(names, ranks):
    assert ranks_of(names) == ranks


def test_other_process_names_are_no_ranks(tiny_trace):
    for name in ("[worker] 3", "python3 83", "ranker 3", "rank0"):
        events = [{**event, "pid": name} for event in rank_events("", 100)]
        with tracekit.open(tiny_trace(events), cache=False) as trace:
            assert trace.sql("SELECT rank, rank_source FROM trace").rows == [(None, "unknown")]


def test_recordings_of_different_times_cause_a_warning(tiny_trace, caplog):
    first = [call(5, 10, 1), kernel("gemm", 20, 120, 1)]
    later = [{**event, "ts": event["ts"] + 1_000_000} for event in first]
    with tracekit.open(
        tiny_trace(first, name="a.json"), tiny_trace(later, name="b.json"), cache=False
    ):
        assert "tracekit compare" in caplog.text
    caplog.clear()
    with tracekit.open(
        tiny_trace(first, name="a.json"), tiny_trace(first, name="c.json"), cache=False
    ):
        assert caplog.text == ""
