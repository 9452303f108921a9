"""The Chrome trace that JAX writes for a GPU matches its XSpace."""

import json
from pathlib import Path

import pytest

import tracekit

H200 = Path(__file__).parents[3] / "shared" / "h200"
WHERE = (
    "SELECT device, stream, e.name, e.class, ts_ns, dur_ns, phase, module.path, launch_delay_ns, "
    "step FROM attributed_events AS e LEFT JOIN module USING (trace_id, module_id) ORDER BY ts_ns"
)


def named(kind, name, pid, tid=0):
    return {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": name}}


def ran(called, tid, start, end, **args):
    pid = 1 if tid == 20 else 701
    return {"ph": "X", "pid": pid, "tid": tid, "ts": start, "dur": end - start, "name": called} | (
        {"args": args} if args else {}
    )


def test_work_calls_and_steps(tmp_path):
    """The scope is on the launch or only on its kernel."""
    forward = "jit(step)/jit(main)/jvp(Model)/layer_3/mlp/dot_general"
    backward = "jit(step)/transpose(jvp(Model))/layer_3/mlp/dot_general:"
    details = "regs:32 grid:4,2,1 block:128,1,1 occ_pct:50"
    copied = "kind_src:pinned kind_dst:device size:4096 dest:0 async:1"
    events = [
        named("process_name", "/device:GPU:1", 1),
        named("thread_name", "Stream #20(Compute)", 1, 20),
        named("process_name", "/host:CPU", 701),
        named("thread_name", "python3", 701, 5),
        ran("train", 5, 0, 9, step_num="4"),
        ran("$loop.py:12 run", 5, 0, 10),
        ran("cuLaunchKernel", 5, 1, 1.5, correlation_id="7", name=forward),
        ran("cuLaunchKernel", 5, 2, 2.5, correlation_id="8"),
        ran("cuMemcpyHtoDAsync", 5, 3, 3.5, correlation_id="9"),
        ran("gemm", 20, 2, 4, correlation_id="7", kernel_details=details, name=forward),
        ran("gemm", 20, 4, 5, correlation_id="8", kernel_details=details, tf_op=backward),
        ran("MemcpyH2D", 20, 5, 6, correlation_id="9", memcpy_details=copied),
        ran("Memset 0", 20, 6, 7, correlation_id="0", Memset_details="num_bytes:4"),
    ]
    path = tmp_path / "jax.trace.json"
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    with tracekit.open(path, cache=False) as trace:
        model = "Model/layer_3/mlp"
        assert trace.sql(WHERE).rows == [
            ("1", 20, "gemm", "gemm", 2000, 2000, "forward", model, 500, 4),
            ("1", 20, "gemm", "gemm", 4000, 1000, "backward", model, 1500, 4),
            ("1", 20, "MemcpyH2D", "memcpy_h2d", 5000, 1000, "data", None, 1500, 4),
            ("1", 20, "Memset 0", "memset", 6000, 1000, "other", None, None, None),
        ]
        sizes = (
            "SELECT args ->> 'grid', args ->> 'block', args ->> 'bytes' FROM event WHERE name = "
        )
        assert trace.sql(sizes + "'gemm' LIMIT 1").rows == [("[4,2,1]", "[128,1,1]", None)]
        assert trace.sql(sizes + "'MemcpyH2D'").rows == [(None, None, "4096")]
        calls = "SELECT name FROM event WHERE category = 'python_function'"
        assert trace.sql(calls).rows == [("loop.py(12): run",)]
        assert trace.query("trace").to_dicts()[0]["event_count"] == len(events) + 2


def test_both_forms_of_a_profile_agree():
    space, chrome = H200 / "jax_h.xplane.pb.gz", H200 / "jax_vm.trace.json.gz"
    if not space.is_file():
        pytest.skip(f"no recording {space}")
    # The XSpace holds the program, which names the ops of its kernels: 16 GEMMs in 8 layers
    # forward, and about twice as many backward.
    with tracekit.open(space, cache=False) as one, tracekit.open(chrome, cache=False) as other:
        rows = one.sql(WHERE).rows
        assert len(rows) == 465
        assert [(*row[:6], *row[8:]) for row in rows] == [
            (*row[:6], *row[8:]) for row in other.sql(WHERE).rows
        ]
        for name in ("timeline", "kernel_classes", "steps"):
            assert one.query(name).rows == other.query(name).rows
        counts = "SELECT phase, count(*) FROM attributed_events AS e JOIN module USING "
        counts += "(trace_id, module_id) WHERE is_gemm(e.class) AND path = 'layer' GROUP BY phase"
        assert sorted(one.sql(counts).rows) == [("backward", 31 * 5), ("forward", 16 * 5)]
