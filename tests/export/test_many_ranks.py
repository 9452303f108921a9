"""Ranks on one axis: their clocks aligned, their collectives linked by arrows."""

import pytest
from perfetto_engine import Engine, engine_folder
from run_of_ranks import write_ranks
from traces_by_hand import kernel

import tracekit
from tracekit.export.perfetto import export_perfetto
from tracekit.export.selection import Clock, Selection, axis_of

RANKS = 3
AHEAD_NS = 3_000_000
SHARED = {"Collective name": "allreduce", "Process Group Name": "0", "Group size": RANKS}
SHARED |= {"In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float"}


def events(rank):
    """Return two all-reduces of 10 µs, to which rank 2 comes 50 µs late; rank 1 is 3 ms ahead."""
    ahead, late = (AHEAD_NS / 1000 if rank == 1 else 0), (50 if rank == 2 else 0)
    found = []
    for seq in (1, 2):
        at = ahead + 200 * seq
        found.append(kernel("gemm", at, at + 100 + late))
        reduction = kernel("ncclDevKernel_AllReduce_Sum_f32", at + 100 + late, at + 160)
        reduction["args"] |= {**SHARED, "Seq": seq, "stream": 20}
        found.append(reduction)
    return found


_COLLECTIVES = """
    SELECT r.name AS rank, extract_arg(s.arg_set_id, 'debug.tracekit.seq') AS seq, s.ts AS ts,
        s.dur AS dur, ifnull(w.dur, 0) AS wait_ns, x.dur AS transfer_ns,
        extract_arg(s.arg_set_id, 'debug.tracekit.wait_ns') AS told_ns
    FROM slice AS s
    JOIN track AS t ON s.track_id = t.id AND t.name = 'collectives'
    JOIN track AS d ON t.parent_id = d.id
    JOIN track AS r ON d.parent_id = r.id
    LEFT JOIN slice AS w ON w.parent_id = s.id AND w.name = 'wait'
    LEFT JOIN slice AS x ON x.parent_id = s.id AND x.name = 'transfer'
    WHERE s.depth = 0
"""
_ARROWS = """
    SELECT r.name AS from_rank, q.name AS to_rank,
        extract_arg(a.arg_set_id, 'debug.tracekit.seq') AS from_seq,
        extract_arg(b.arg_set_id, 'debug.tracekit.seq') AS to_seq
    FROM flow AS f
    JOIN slice AS y ON f.slice_out = y.id AND y.name = 'transfer'
    JOIN slice AS z ON f.slice_in = z.id AND z.name = 'transfer'
    JOIN slice AS a ON y.parent_id = a.id
    JOIN slice AS b ON z.parent_id = b.id
    JOIN track AS t ON a.track_id = t.id JOIN track AS d ON t.parent_id = d.id
    JOIN track AS r ON d.parent_id = r.id
    JOIN track AS u ON b.track_id = u.id JOIN track AS e ON u.parent_id = e.id
    JOIN track AS q ON e.parent_id = q.id
"""


@pytest.mark.nightly("reads every sample back in the engine of Perfetto")
def test_the_clocks_of_ranks_are_aligned(tmp_path):
    """The clock of rank 1 is 3 ms ahead; exported collectives end simultaneously on all ranks."""
    engine_folder()
    out = tmp_path / "x.pftrace"
    with (
        tracekit.open(*write_ranks(tmp_path, RANKS, events=events), cache=False) as trace,
        out.open("wb") as file,
    ):
        offsets = {row["rank"]: row["offset_ns"] for row in trace.query("clock_offsets").to_dicts()}
        assert offsets == {rank: AHEAD_NS if rank == 1 else 0 for rank in range(RANKS)}
        done = export_perfetto(trace, file.write)
        assert any("shifted by at most 3,000.000 µs" in note for note in done.notes)
        stored = dict(
            trace.sql(
                "SELECT ('rank ' || t.rank, e.event_id), e.ts_ns + t.base_time_ns "
                "FROM event AS e INNER JOIN trace AS t ON e.trace_id = t.trace_id"
            ).rows
        )
        part = []
        chosen = export_perfetto(trace, part.append, Selection(ranks=frozenset({0, 1})))
        assert chosen.trace_count == 2
        assert any("shifted by at most 3,000.000 µs" in note for note in chosen.notes)
    with Engine(out) as engine:
        assert engine.problems() == {}
        rows = engine.rows(_COLLECTIVES)
        ends = {}
        for rank, seq, ts, dur, wait_ns, transfer_ns, told_ns in rows:
            ends.setdefault(seq, set()).add(ts + dur)
            assert wait_ns + transfer_ns == dur
            assert wait_ns == told_ns == (0 if rank == "rank 2" else 50_000)
            assert transfer_ns == 10_000
        assert {len(at) for at in ends.values()} == {1}
        assert len(rows) == RANKS * len(ends)
        arrows = engine.rows(_ARROWS)
        assert all(before == after for _, _, before, after in arrows)
        assert len({(seq, frozenset(pair)) for *pair, seq, _ in arrows}) == (RANKS - 1) * len(ends)
        moved = engine.rows(
            """
            SELECT r.name AS rank, extract_arg(s.arg_set_id, 'debug.event_id') AS event_id,
                s.ts AS ts
            FROM slice AS s JOIN track AS t ON s.track_id = t.id
            JOIN track AS p ON t.parent_id = p.id JOIN track AS r ON p.parent_id = r.id
            WHERE event_id IS NOT NULL AND t.name <> 'collectives'
            """
        )
        assert len(moved) == len(stored)
        for rank, event_id, ts in moved:
            ahead_ns = AHEAD_NS if rank == "rank 1" else 0
            assert ts == stored[rank, event_id] - ahead_ns


def test_one_trace_keeps_its_time():
    assert axis_of({0: Clock(1_000, 5)}).shifts == {0: 1_000}
    assert axis_of({0: Clock(0, 5)}).shifts == {0: 0}
    assert axis_of({0: Clock(0, -5)}).shifts == {0: 5}
    assert not axis_of({0: Clock(0, 5)}).is_since_epoch


def test_ranks_lie_by_the_clocks_of_their_hosts():
    axis = axis_of({0: Clock(1_000, 5), 1: Clock(2_000, 5)})
    assert axis.shifts == {0: 1_000, 1: 2_000}
    assert axis.is_since_epoch
    assert "by their host clocks" in axis.notes[0]


def test_collectives_of_all_ranks_align_clocks():
    axis = axis_of({0: Clock(1_000, 5, 10), 1: Clock(2_000, 5, -10)})
    assert axis.shifts == {0: 990, 1: 2_010}
    assert "shifted by at most 0.010 µs" in axis.notes[0]
    some = axis_of({0: Clock(1_000, 5, 10), 1: Clock(2_000, 5)})
    assert some.shifts == {0: 1_000, 1: 2_000}


def test_without_base_times_each_begins_at_0():
    axis = axis_of({0: Clock(0, 5), 1: Clock(2_000, 7)})
    assert axis.shifts == {0: -5, 1: -7}
    assert not axis.is_since_epoch
    assert axis.notes == ["some traces have no base time: each starts at 0"]
