"""XSpaces are read to the nanosecond, each event once."""

import gzip
import random

import pytest
from formats_by_hand import SESSION_NS, Space, gpu_space

import tracekit
from tracekit.errors import TraceError
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.formats.xspace_trace import XSpaceReader
from tracekit.ingest.sources import find_traces


def test_work_calls_and_steps(tmp_path):
    path = gpu_space().file(tmp_path)
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for given in (path, packed):
        with tracekit.open(given, cache=False) as trace:
            rows = trace.sql(
                f"SELECT device, stream, e.name, e.class, ts_ns + base_time_ns - {SESSION_NS}, "
                "dur_ns, phase, module.path, launch_delay_ns, step FROM attributed_events AS e "
                "JOIN trace USING (trace_id) LEFT JOIN module USING (trace_id, module_id) "
                "ORDER BY ts_ns"
            ).rows
            # A start of 1,500.999 ns and an end of 3,501 ns.
            model = "Model/layer_3/mlp"
            assert rows == [
                ("1", 20, "gemm", "gemm", 2500, 2001, "forward", model, 400, 4),
                ("1", 20, "gemm", "gemm", 4501, 500, "backward", model, 1401, 4),
                ("1", 20, "MemcpyH2D", "memcpy_h2d", 6000, 1000, "data", None, 1900, 4),
            ]
            sizes = "SELECT dur_ns, args ->> 'grid', args ->> 'bytes' FROM event WHERE category = "
            assert trace.sql(sizes + "'kernel' LIMIT 1").rows == [(2001, "[4,2,1]", None)]
            assert trace.sql(sizes + "'gpu_memcpy'").rows == [(1000, None, "4096")]
            device = "SELECT device_id, compute_capability FROM device"
            assert trace.sql(device).rows == [(1, "9.0")]
            calls = "SELECT name FROM event WHERE category = 'python_function'"
            assert trace.sql(calls).rows == [("loop.py(12): run",)]
            assert trace.query("steps").to_dicts()[0]["step"] == 4


OPS = [
    ("p.1", "parameter", ""),
    ("gemm_fusion_dot.1", "fusion", "jit(step)/jit(main)/jvp(Model)/mlp/dot_general"),
    ("custom-call.2", "custom-call", "jit(step)/transpose(jvp(Model))/mlp/dot_general"),
    ("get-tuple-element.3", "get-tuple-element", ""),
    ("gemm_fusion_dot.4", "fusion", "jit(step)/rematted_computation/mlp/dot_general"),
    ("loop_add.5", "fusion", "jit(step)/add"),
]
RAN = ("gemm_fusion_dot_1", "nvjet", "gemm_fusion_dot_1", "loop_add_5")


@pytest.mark.parametrize(
    ("ran", "ops", "is_known"),
    [
        (RAN, OPS, True),
        # A missing kernel, another order, and a loop with an unknown number of iterations.
        (RAN[:-1], OPS, False),
        ((RAN[1], RAN[0], *RAN[2:]), OPS, False),
        (RAN, [*OPS, ("while.6", "while", "")], False),
    ],
)
def test_kernels_of_a_command_buffer_are_the_ops_of_its_program(tmp_path, ran, ops, is_known):
    space = Space()
    call = {"correlation_id": 7}
    space.plane("/host:CPU", {"python": [("cuGraphLaunch (CudaGraph:3)", 0, 1_000_000, call)]})
    facts = {**call, "hlo_op": "command_buffer", "program_id": 12}
    kernels = [
        (name, at * 1_000_000, at * 1_000_000 + 500_000, facts) for at, name in enumerate(ran, 2)
    ]
    memset = ("Memset 0", 1_200_000, 1_300_000, {**facts, "Memset_details": "num_bytes:4"})
    space.plane("/device:GPU:0", {"Stream #14(Memset,Compute)": [memset, *kernels]})
    space.program("jit_step(12)", ops)
    with tracekit.open(space.file(tmp_path), cache=False) as trace:
        rows = trace.sql(
            "SELECT e.name, phase, module.path, op_name FROM attributed_events AS e "
            "LEFT JOIN module USING (trace_id, module_id) WHERE e.class <> 'memset' ORDER BY ts_ns"
        ).rows
    right = [
        ("forward", "Model/mlp", "dot_general"),
        ("backward", "Model/mlp", "dot_general"),
        ("recompute", "mlp", "dot_general"),
        ("other", None, "add"),
    ]
    if is_known:
        assert [row[1:] for row in rows] == right
    else:
        assert {row[2:] for row in rows} == {(None, None)}


def test_each_op_of_a_tpu_counts_once(tmp_path):
    space = Space()
    space.plane(
        "/device:TPU:2",
        {
            "Steps": [("0", 0, 10_000_000)],
            "XLA Modules": [("jit_step(5)", 0, 10_000_000)],
            "XLA Ops": [
                # A loop holds its ops.
                ("%while.3 = while.3", 0, 8_000_000),
                ("%fusion.1 = fusion.1", 1_000_000, 3_000_000, {"flops": 1e9}),
                ("%all-reduce.1 = all-reduce.1", 3_000_000, 4_000_000),
            ],
            "Async XLA Ops": [("%copy-start.2 = copy-start.2", 2_000_000, 5_000_000)],
        },
    )
    with tracekit.open(space.file(tmp_path), cache=False) as trace:
        timeline = trace.query("timeline").to_dicts()[0]
        figures = ("window_ns", "compute_ns", "exposed_comm_ns", "exposed_memcpy_ns", "idle_ns")
        assert [timeline[name] for name in figures] == [4000, 2000, 1000, 1000, 0]
        assert trace.sql("SELECT sum(dur_ns) FROM device_events").rows == [(6000,)]


def test_ops_that_the_cpu_runs_are_its_work(tmp_path):
    space = Space()
    op = {"hlo_op": "dot.1", "hlo_module": "jit_step"}
    space.plane("/host:CPU", {"tf_XLAEigen": [("dot.1", 0, 5_000_000, op)]}, process_id=44)
    with tracekit.open(space.file(tmp_path), cache=False) as trace:
        rows = "SELECT device, e.name, dur_ns, phase, path FROM attributed_events AS e "
        rows += "JOIN module USING (trace_id, module_id)"
        assert trace.sql(rows).rows == [("cpu", "xla::dot.1", 5000, "other", "step")]


def test_the_space_takes_precedence_over_files_of_xprof(tmp_path):
    path = gpu_space().file(tmp_path)
    (tmp_path / "host.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}'))
    assert [place.name for place in find_traces([tmp_path])] == [path.name]


def test_a_truncated_file_keeps_its_complete_planes(tmp_path):
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(gpu_space().data()[:-60])
    with tracekit.open(path, cache=False) as trace:
        assert trace.sql("SELECT is_truncated FROM trace").rows == [(True,)]
        assert trace.sql("SELECT count(*) FROM device_events").rows == [(3,)]
    path.write_bytes(gpu_space().data()[:60])
    with pytest.raises(TraceError, match="ends before its first event"):
        tracekit.open(path, cache=False)


HEAD = b"\x12\x09/host:CPU"


@pytest.mark.parametrize(
    "plane",
    [
        HEAD,
        HEAD + b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\x3f",
        HEAD + b"\x1a\x04\x22\x80\x80\x80",
        HEAD + b"\x1a\x0b" + b"\x80" * 11,
        HEAD + b"\x1a\x02\x0b\x0b",
        HEAD + b"\x18\x05",
        HEAD + b"\x22\x02\x08\x01",
        HEAD + b"\x1a\x06\x22\x04\x22\x02\x12\x00",
        HEAD + b"\x1a" + b"\x02\x22\x00" * 3,
    ],
)
def test_damaged_planes_are_refused(plane, tmp_path):
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(b"\x0a" + bytes([len(plane)]) + plane)
    with pytest.raises(TraceError, match="XSpace") as raised:
        tracekit.open(path, cache=False)
    assert "\n" not in raised.value.message


def test_random_damage_is_read_or_refused(tmp_path):
    whole, path = gpu_space().data(), tmp_path / "a.xplane.pb"
    chance = random.Random(5)
    outcomes = set()
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(20, len(data))
            data[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        path.write_bytes(data)
        reader = XSpaceReader(ByteStream(path))
        try:
            outcomes.add(sum(1 for _ in reader.blocks()) >= 0)
            reader.metadata()
        except TraceError:
            outcomes.add(None)
    assert outcomes == {True, None}
