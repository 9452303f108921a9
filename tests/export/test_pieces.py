"""The export of an interval equals the same part of the complete export."""

import json

import pytest
from recorded_scene import check_piece, record
from run_of_ranks import write_ranks
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.export.selection import Selection

# Cases that could differ between an interval and the complete export: phases and modules that begin
# long before, overlapping kernels on two streams, hidden and exposed communication, an op that also
# launched a distant kernel, gaps, and queues.
LAUNCHES = [
    # launched at, kernel from, to, stream, name
    (5, 20, 40, 7, "gemm"),
    (6, 30, 34, 9, "ncclDevKernel_AllReduce"),
    (7, 36, 60, 9, "ncclDevKernel_AllReduce"),
    (20, 60, 70, 7, "Memcpy HtoD"),
    (50, 90, 100, 7, "gemm"),
    (52, 95, 130, 9, "elementwise"),
    (110, 150, 160, 7, "gemm"),
    (112, 155, 175, 9, "ncclDevKernel_AllReduce"),
    (130, 175, 180, 7, "gemm"),
    (150, 200, 220, 7, "gemm"),
    (205, 230, 231, 7, "Memset"),
    (210, 250, 270, 7, "gemm"),
]
MODULES = [(4, 60, "a"), (105, 160, "b"), (200, 215, "a")]


def events():
    """Return two steps of three module calls; the second call is a backward pass."""
    found = [
        span("user_annotation", "ProfilerStep#1", 1, 100),
        span("user_annotation", "ProfilerStep#2", 101, 280),
        span("user_annotation", "tk/phase/forward", 3, 104),
        span("user_annotation", "tk/phase/backward", 104, 203),
        span("user_annotation", "tk/phase/forward", 204, 279),
    ]
    for start, end, name in MODULES:
        path = f"tk/module/forward/model.{name}#Linear"
        found += [
            span("user_annotation", "tk/module/forward/model#Model", start - 0.5, end + 0.5),
            span("user_annotation", path, start, end),
        ]
    for number, (at, start, end, stream, name) in enumerate(LAUNCHES, start=1):
        shapes = {"Input Dims": [[8, 8], [8, 8]], "Input type": ["float", "float"]}
        found += [
            span("cpu_op", "aten::mm", at - 0.25, at + 0.75, **shapes),
            call(at, at + 0.5, number),
            kernel(name, start, end, number, stream=stream),
        ]
        flow = {"id": number, "cat": "own", "name": "x"}
        found.append({"ph": "s", "pid": 1, "tid": 1, "ts": at} | flow)
        found.append({"ph": "f", "bp": "e", "pid": 0, "tid": stream, "ts": start} | flow)
    return found


def test_every_part_of_a_small_trace_agrees_with_the_complete_trace(tiny_trace):
    with tracekit.open(tiny_trace(events()), cache=False) as trace:
        whole, done = record(trace)
        assert None not in {end for arrow in whole.arrows() for end in arrow}
        begin_ns = 1_000
        assert min(s.start_ns for spans in whole.spans.values() for s in spans) == begin_ns
        counts = []
        # In a gap; with communication after hidden communication; across a change of phase and
        # module.
        for from_ns, to_ns in ((143_000, 144_000), (30_000, 42_000), (95_000, 165_000)):
            piece, done = record(trace, Selection(from_ns=from_ns, to_ns=to_ns))
            check_piece(whole, piece, begin_ns + from_ns, begin_ns + to_ns)
            counts.append(done.event_count)
        assert counts == [4, 7, 18]
        piece, _ = record(trace, Selection(from_ns=120_000))
        check_piece(whole, piece, begin_ns + 120_000, 1 << 60)
        piece, _ = record(trace, Selection(to_ns=120_000))
        check_piece(whole, piece, -(1 << 60), begin_ns + 120_000)


@pytest.mark.parametrize("file", ["deepseek_train_h800.json.gz", "tl_mi300_qwen.json.gz"])
@pytest.mark.nightly("exports complete traces")
def test_parts_of_public_traces_agree_with_the_complete_traces(opened, public_traces, file):
    trace = opened(public_traces / file)
    whole, done = record(trace)
    ((first_ns, end_ns, shift_ns),) = trace.sql(
        "SELECT first_ts_ns, (SELECT max(ts_ns + dur_ns) FROM event), base_time_ns FROM trace"
    ).rows
    length_ns = end_ns - first_ns
    begin_ns = min(s.start_ns for spans in whole.spans.values() for s in spans if s.event_id)
    assert abs(begin_ns - first_ns - shift_ns) < 1_000_000
    for place in (0.1, 0.45, 0.8):
        from_ns = int(place * length_ns)
        to_ns = from_ns + length_ns // 50
        piece, done = record(trace, Selection(from_ns=from_ns, to_ns=to_ns))
        at_ns = first_ns + shift_ns
        check_piece(whole, piece, at_ns + from_ns, at_ns + to_ns)
        assert done.event_count > 0


def test_a_step_of_a_serving_engine(tiny_trace):
    """Its device work ends after its range, and work of the next step is not included."""
    file = tiny_trace(
        [
            span("user_annotation", "execute_context_1(8)_generation_0(0)", 0, 10),
            call(1, 2, 1),
            kernel("prefill", 5, 14, 1),
            span("user_annotation", "execute_context_0(0)_generation_1(1)", 20, 30),
            call(21, 22, 2),
            kernel("decode", 25, 40, 2),
            span("user_annotation", "execute_context_0(0)_generation_1(1)", 50, 60),
            call(51, 52, 3),
            kernel("decode", 55, 70, 3),
        ]
    )
    with tracekit.open(file, cache=False) as trace:
        piece, _ = record(trace, Selection(steps=frozenset((1,))))
        whole, _ = record(trace)
        check_piece(whole, piece, 20_000, 40_000)


@pytest.mark.nightly("exports many pieces")
def test_arrows_that_lead_out_of_a_piece_are_counted(cli, tiny_trace, tmp_path):
    out = tmp_path / "x.pftrace"
    # Since the first event, at 1 µs: launches 1 to 3 are inside, and no kernel is.
    file = tiny_trace(events())
    done = cli("export", "perfetto", file, "-o", out, "--from", "3us", "--to", "9us")
    assert done.exit_code == 0, done.stderr
    assert "note: 3 arrows " in done.stderr


def test_arrows_between_ranks_lead_to_ranks_that_are_written(tmp_path):
    write_ranks(tmp_path)
    with tracekit.open(tmp_path, cache=False) as trace:
        scene, _ = record(trace, Selection(ranks=frozenset({0, 2})))
        arrows = [arrow for arrow in scene.arrows() if "collectives" in str(arrow)]
        assert arrows
        assert all(None not in arrow for arrow in arrows)


@pytest.mark.nightly("deep modules; others are in the gate")
def test_modules_are_drawn_a_hundred_levels_deep(tiny_trace, cli):
    events = []
    for depth in range(150):
        at = depth * 10
        events.append(span("user_annotation", f"range {depth}", at, 3000 - at))
        events += [call(at + 1, at + 3, depth + 1), kernel("k", at + 4, at + 8, depth + 1)]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        scene, _ = record(trace)
    facts = [json.loads(one.facts or "{}") for found in scene.spans.values() for one in found]
    drawn = [one for one in facts if "self_wall_ns" in one]
    by_wall = sorted((one["wall_ns"] for one in drawn), reverse=True)
    # Each has its own kernel of 4 µs and the kernels of nested ones.
    assert by_wall == [4000 * (150 - depth) for depth in range(101)]
    rows = json.loads(cli("query", "class_icicle", tiny_trace(events), "--format", "json").stdout)
    widths = [(row["depth"], row["total_wall_ns"], row["self_wall_ns"]) for row in rows]
    assert widths[0] == (0, 600_000, 0)
    assert widths[1:] == [(1 + at, 4000 * (150 - at), 4000) for at in range(150)]
