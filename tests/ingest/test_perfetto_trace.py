"""An export for Perfetto is read back as the original trace."""

import gzip

import pytest
from perfetto_read_back import exported
from traces_by_hand import kernel, span, work

import tracekit
from tracekit.errors import TraceError

EVENTS = [
    span("user_annotation", "ProfilerStep#3", 0, 100),
    span("cpu_op", "aten::mm", 1, 9, **{"Input Dims": [[2, 3], [3, 4]], "External id": 5}),
    *work(2, 6, 16.5, 1, "ampere_sgemm_128x64_nn"),
    *work(20, 30.001, 40, 2, "ampere_sgemm_128x64_nn"),
    # Overlaps the previous one on its stream, so it gets its own lane.
    kernel("void gather<1>(int*)", 35, 36, 3),
    kernel("Memcpy HtoD (Pageable -> Device)", 50, 50, 4, stream=20, bytes=64),
    span("Trace", "PyTorch Profiler (0)", 0, 101) | {"pid": "Spans", "tid": "PyTorch Profiler"},
    {"ph": "i", "cat": "cpu_instant_event", "name": "mark", "pid": 1, "tid": 1, "ts": 7, "s": "t"},
]

DISTRIBUTED = {"distributedInfo": {"rank": 3, "world_size": 4}, "baseTimeNanoseconds": 10**18}

READ = """
    SELECT category, name, pid, tid, ts_ns + base_time_ns, dur_ns, correlation, external_id,
        device, stream, args::VARCHAR, rank
    FROM event JOIN trace USING (trace_id) ORDER BY ALL
"""

TOTALS = "SELECT device, count(*), sum(dur_ns), sum(wall_ns) FROM device_events GROUP BY ALL"


@pytest.mark.nightly("exports a trace first")
def test_every_event_comes_back(tmp_path, tiny_trace):
    with tracekit.open(tiny_trace(EVENTS, **DISTRIBUTED), cache=False) as trace:
        path = exported(trace, tmp_path / "a.pftrace")
        events, totals = trace.sql(READ).rows, trace.sql(TOTALS + " ORDER BY ALL").rows
        marks = trace.sql("SELECT name, category FROM instant").rows
        steps = trace.query("steps").to_dicts()
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for given in (path, packed):
        with tracekit.open(given, cache=False) as trace:
            # Text ids become numbers in order of appearance.
            assert [row[:2] + row[4:] for row in trace.sql(READ).rows] == [
                row[:2] + row[4:] for row in events
            ]
            assert trace.sql(TOTALS + " ORDER BY ALL").rows == totals
            assert trace.sql("SELECT name, category FROM instant").rows == marks
            texts = "SELECT pid_text, tid_text FROM thread WHERE pid < 0"
            assert trace.sql(texts).rows == [("Spans", "PyTorch Profiler")]
            assert trace.query("steps").to_dicts() == steps


@pytest.mark.nightly("exports and damages a trace many times")
def test_truncated_damaged_and_merged_exports(tmp_path, tiny_trace):
    source = tiny_trace(EVENTS)
    with tracekit.open(source, cache=False) as trace:
        path = exported(trace, tmp_path / "a.pftrace")
    cut = tmp_path / "cut.pftrace"
    cut.write_bytes(path.read_bytes()[:-3])
    with tracekit.open(cut, cache=False) as trace:
        reason = "SELECT truncation_reason FROM trace"
        assert trace.sql(reason).rows != [(None,)]
    damaged = bytearray(path.read_bytes())
    damaged[6] = 0xFF
    cut.write_bytes(damaged)
    with pytest.raises(TraceError, match=r"cut\.pftrace"):
        tracekit.open(cut, cache=False)
    other = tiny_trace(EVENTS, "other.json")
    with tracekit.open(source, other, cache=False) as trace:
        exported(trace, cut)
    with pytest.raises(TraceError, match="ranks"):
        tracekit.open(cut, cache=False)


def test_the_hint_for_another_program_names_the_converter(tmp_path):
    packets = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = packets.Trace()
    trace.packet.add(timestamp=5).track_descriptor.name = "GPU"
    path = tmp_path / "rocm.pftrace"
    path.write_bytes(trace.SerializeToString())
    with pytest.raises(TraceError) as raised:
        tracekit.open(path)
    assert "traceconv json rocm.pftrace" in str(raised.value.hint)
