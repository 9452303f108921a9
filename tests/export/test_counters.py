"""Counters and serving tracks of small traces that can be checked by hand."""

import pytest
from every_trace import REPO
from perfetto_engine import Engine, engine_folder
from perfetto_read_back import exported
from traces_by_hand import call, kernel, memory, span

import tracekit

_VALUES = (
    "SELECT t.name AS name, c.ts AS ts, c.value AS value FROM counter AS c "
    "JOIN track AS t ON c.track_id = t.id ORDER BY 1, c.id"
)


def allocated(at, size):
    sums = {"Total Allocated": size, "Total Reserved": 2048}
    return memory(at, **{"Addr": 1, "Bytes": 1, "Device Type": 1, "Device Id": 0}, **sums)


def counters_of(file, out):
    engine_folder()
    with tracekit.open(file, cache=False) as trace:
        exported(trace, out)
    found = {}
    with Engine(out) as engine:
        assert engine.problems() == {}
        for name, ts, value in engine.rows(_VALUES):
            found.setdefault(name, []).append((ts, value))
    return found


def test_every_counter_of_a_device(tiny_trace, tmp_path):
    shapes = {"Input Dims": [[4, 8], [8, 16]], "Input type": ["float", "float"]}
    events = [
        span("cpu_op", "aten::mm", 0, 12, **shapes),
        call(1, 2, 11),
        call(3, 4, 12, "cudaMemcpyAsync"),
        call(5, 6, 13),
        allocated(1, 512),
        allocated(7, 256),
        # 2 · 4 · 8 · 16 = 1024 operations and 4 · (32 + 128 + 64) = 896 bytes in 4 µs.
        kernel("gemm", 10, 14, 11),
        kernel("Memcpy HtoD (Pageable -> Device)", 16, 18, 12, bytes=4_000),
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, 25, 13),
        {"ph": "C", "name": "ours", "pid": 1, "tid": 1, "ts": 2, "args": {"a": 1.5, "b": "NaN"}},
    ]
    queue = [(1_000, 1), (3_000, 2), (5_000, 3), (10_000, 2), (16_000, 1), (20_000, 0)]
    assert counters_of(tiny_trace(events), tmp_path / "x.pftrace") == {
        "achieved FLOP/s (0 if unknown)": [(10_000, 256e6), (14_000, 0)],
        "achieved bytes/s (0 if unknown)": [
            (10_000, 224e6),
            (14_000, 0),
            (16_000, 2e9),
            (18_000, 0),
        ],
        "allocated": [(1_000, 512), (7_000, 256)],
        "reserved": [(1_000, 2048), (7_000, 2048)],
        "exposed communication": [(20_000, 0), (25_000, 5_000)],
        "queue length of stream 7": queue,
        "ours: a": [(2_000, 1.5)],
    }


def test_tokens_and_requests_of_the_batch(tiny_trace, tmp_path):
    events = [
        span("user_annotation", "tk/step/0", 0, 10),
        span("user_annotation", "tk/batch/prefill_2(30)_decode_1(1)", 1, 9),
        span("user_annotation", "tk/step/1", 20, 30),
        span("user_annotation", "tk/batch/prefill_0(0)_decode_3(3)", 21, 29),
        span("cpu_op", "aten::mm", 2, 8),
        span("cpu_op", "aten::mm", 22, 28),
    ]
    found = counters_of(tiny_trace(events), tmp_path / "x.pftrace")
    assert found == {
        "tokens in the batch": [(0, 31), (10_000, 0), (20_000, 3), (30_000, 0)],
        "requests in the batch": [(0, 3), (10_000, 0), (20_000, 3), (30_000, 0)],
    }


def test_unknown_values_are_not_drawn_as_zero(tiny_trace, tmp_path):
    """Products without shapes have no operations, and steps without a batch no tokens."""
    events = [
        span("user_annotation", "tk/step/0", 0, 10),
        span("user_annotation", "tk/phase/decode", 1, 9),
        span("cpu_op", "aten::mm", 2, 8),
        call(3, 4, 11),
        kernel("gemm", 5, 8, 11),
    ]
    found = counters_of(tiny_trace(events), tmp_path / "x.pftrace")
    assert set(found) == {"queue length of stream 7"}


@pytest.mark.nightly("reads every sample back in the engine of Perfetto")
def test_requests_lead_to_the_steps_that_served_them(tmp_path, opened):
    """Of a part of a recorded run: a request's parts tile it, and its arrows end at its steps."""
    engine_folder()
    out = tmp_path / "x.pftrace"
    trace = opened(REPO / "sample_traces" / "serve_transformers")
    ((length_ns,),) = trace.sql("SELECT max(ts_ns + dur_ns) - min(ts_ns) FROM event").rows
    exported(trace, out, to_ns=length_ns // 4)
    stored = trace.sql(
        "SELECT request_id, start_unix_ns, end_unix_ns - start_unix_ns "
        "FROM request_intervals() ORDER BY 1"
    ).rows
    served = trace.sql(
        "SELECT DISTINCT r.request_id, s.step FROM request_step AS r "
        "INNER JOIN serving_step_ranges AS s "
        "ON s.step BETWEEN r.first_step AND r.last_step ORDER BY ALL"
    ).rows
    with Engine(out) as engine:
        assert engine.problems() == {}
        request = "extract_arg(s.arg_set_id, 'debug.tracekit.request')"
        found = engine.rows(
            f"SELECT {request} AS request, s.ts AS ts, s.dur AS dur FROM slice AS s "
            "JOIN track AS t ON s.track_id = t.id WHERE t.name = 'requests' AND s.depth = 0 "
            "ORDER BY 1"
        )
        assert found
        assert set(found) <= set(stored)
        tiled = engine.rows(
            "SELECT s.dur AS dur, sum(p.dur) AS parts FROM slice AS s "
            "JOIN slice AS p ON p.parent_id = s.id JOIN track AS t ON s.track_id = t.id "
            "WHERE t.name = 'requests' AND s.depth = 0 GROUP BY s.id"
        )
        assert all(dur == parts for dur, parts in tiled)
        step = "extract_arg(b.arg_set_id, 'debug.tracekit.step')"
        steps = engine.rows(
            f"SELECT {step} AS step FROM slice AS b JOIN track AS t ON b.track_id = t.id "
            "WHERE t.name = 'serving steps'"
        )
        arrows = engine.rows(
            f"SELECT {request} AS request, {step} AS step "
            "FROM flow AS f JOIN slice AS s ON f.slice_out = s.id "
            "JOIN slice AS b ON f.slice_in = b.id JOIN track AS t ON b.track_id = t.id "
            "WHERE t.name = 'serving steps' ORDER BY 1, 2"
        )
        assert len(steps) > 10
        assert arrows == [pair for pair in served if pair[1:] in steps]


def test_queues_are_in_stream_order(tiny_trace, tmp_path):
    messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    streams = [285, 7, 27, 25]
    events = []
    for number, stream in enumerate(streams, start=1):
        events += [call(number, number + 0.5, number)]
        events += [kernel("gemm", 10 + number, 11 + number, number, stream=stream)]
    out = tmp_path / "x.pftrace"
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        exported(trace, out)
    found = {}
    for packet in messages.Trace.FromString(out.read_bytes()).packet:
        one = packet.track_descriptor
        if one.HasField("counter"):
            found[one.sibling_order_rank] = one.name
    order = [found[rank] for rank in sorted(found)]
    assert order == [f"queue length of stream {stream}" for stream in sorted(streams)]
