"""An export holds a block at a time, however large the trace is."""

import pytest
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.export import packets, staging
from tracekit.export.perfetto import export_perfetto
from tracekit.export.selection import Selection, scope_of


def of_steps(count, name="gemm", end=27):
    """Return repeated ops with a launch and a kernel; two overlap if one ends late."""
    events = []
    for number in range(count):
        at = 20 * number
        events += [
            span("cpu_op", f"aten::mm {number % 7}", at, at + 30, note="x" * 50),
            call(at + 1, at + 2, number + 1),
            kernel(name, at + 4, at + end, number + 1),
        ]
    return events


def exported(trace):
    blocks = []
    done = export_perfetto(trace, blocks.append)
    assert done.event_count == trace.sql("SELECT count(*) FROM event").rows[0][0]
    return b"".join(blocks), [len(block) for block in blocks]


def test_a_query_returns_a_block_of_events(tiny_trace, monkeypatch):
    """Every event is in one block, blocks are limited, and splitting changes no result."""
    # One event far from all others, and many events with the same start.
    far = span("cpu_op", "far", 10_000_000_000, 10_000_000_001)
    crowd = [span("cpu_op", "crowd", 50, 51, pid=number) for number in range(30)]
    file = tiny_trace([*of_steps(200), *crowd, far])
    with tracekit.open(file, cache=False) as trace:
        scope = scope_of(trace, Selection())
        whole = [*staging.blocks_of(trace, scope)]
        assert len(whole) == 1
        at_once, _ = exported(trace)
        monkeypatch.setattr(staging, "BLOCK_BYTES", 3_000)
        blocks = [*staging.blocks_of(trace, scope)]
        assert len(blocks) > 50
        assert [one.to_ns for one in blocks[:-1]] == [one.from_ns for one in blocks[1:]]
        counts = []
        for one in blocks:
            rows = trace.sql(
                "SELECT count(*), count(DISTINCT ts_ns) FROM event "
                f"WHERE ts_ns >= {one.from_ns} AND ts_ns < {one.to_ns}"
            ).rows
            counts += rows
        assert sum(count for count, _ in counts) == 631
        # An event takes at least 200 bytes; only events with the same start may exceed the limit.
        assert all(count <= 15 or starts == 1 for count, starts in counts)
        in_blocks, _ = exported(trace)
        # Packets of one track come in the same order; only tracks take turns.
        assert sorted(slices_of(in_blocks)) == sorted(slices_of(at_once))


def slices_of(trace):
    """Return time, kind and name of each packet of an event."""
    messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    return [
        (packet.timestamp, packet.track_event.type, len(packet.track_event.debug_annotations))
        for packet in messages.Trace.FromString(trace).packet
        if packet.HasField("track_event")
    ]


@pytest.mark.nightly("exports a large trace")
def test_collected_rows_are_passed_on_in_blocks(tiny_trace):
    with tracekit.open(tiny_trace(of_steps(6_000)), cache=False) as trace:
        data, sizes = exported(trace)
    assert len(data) > 3 * packets.BLOCK_BYTES
    assert max(sizes) < packets.BLOCK_BYTES + 10_000


@pytest.mark.nightly("exports a large trace")
def test_a_trace_that_is_larger_than_the_memory(tiny_trace, monkeypatch):
    """Staged tables spill to disk, and a query needs at most one block.

    Between two kernels is a gap, which has the long names of both.
    """
    monkeypatch.setenv("TRACEKIT_MEMORY_LIMIT", "100MB")
    name = f"void kernel_with_arguments<{'float, ' * 60}>"
    with tracekit.open(tiny_trace(of_steps(40_000, name, 14)), cache=False) as trace:
        sizes = []
        done = export_perfetto(trace, lambda block: sizes.append(len(block)))
    assert done.event_count == 120_000
    # Gaps are slices too, one between each two kernels.
    assert done.slice_count > 120_000 + 40_000 - 1
    assert sum(sizes) > 30 * packets.BLOCK_BYTES


def test_an_omitted_critical_path_is_reported(tiny_trace, monkeypatch):
    left_out = "the critical path is omitted: the trace has too much device work for it"
    with tracekit.open(tiny_trace(of_steps(3)), cache=False) as trace:
        whole = export_perfetto(trace, lambda _: None)
        monkeypatch.setattr(staging, "_MAX_WITH_PATH", 2)
        without = export_perfetto(trace, lambda _: None)
    assert (left_out in whole.notes, left_out in without.notes) == (False, True)
    assert without.slice_count < whole.slice_count


def test_a_temporary_store_has_the_same_memory_limit(tiny_trace):
    statement = "SELECT current_setting('memory_limit')"
    file = tiny_trace(of_steps(3))
    with tracekit.open(file, cache=False) as trace, tracekit.open(file) as kept:
        assert trace.sql(statement).rows == kept.sql(statement).rows
