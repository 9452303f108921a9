"""Analyses of public traces and of recordings of a GPU, with known figures."""

import gzip
import json
from pathlib import Path

import pytest

import tracekit

pytestmark = pytest.mark.nightly("public traces beyond the eight of the gate")

SHARED = Path(__file__).parents[3] / "shared"


@pytest.fixture
def trace_of(opened, public_traces):
    return lambda name: opened(public_traces / f"{name}.json.gz")


# ---- modules, phases and idle time ---------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("tl_b200_vllm_eager", "tl_mi300_resnet_ddp_recompute", "tl_h100_qwen"),
        *("tl_h100_owlv2_large", "tl_mi300_sglang_prefill"),
    ],
)
def test_linked_device_time_is_placed(trace_of, name):
    ((unplaced_pct,),) = (
        trace_of(name)
        .sql(
            "SELECT 100.0 * coalesce(sum(dur_ns) FILTER (row_name = '(unattributed)'), 0)"
            " / sum(dur_ns) FROM attribution JOIN device_events USING (trace_id, event_id, piece)"
            " WHERE launch_id IS NOT NULL"
        )
        .rows
    )
    assert unplaced_pct <= 3


TRAINING = (
    *("cpu_llama_ckpt_module_ranges", "cpu_llama_lora", "cpu_llama_z3_rank0", "cpu_llama_z3_rank1"),
    *("deepseek_train_h800", "hta_a100_cudagraph", "hta_ddp_nccl_metadata", "hta_mi250_toy_train"),
    *("hta_resnet_v100_ns", "hta_sampled_rank0_noflows", "hta_sampled_rank1_noflows"),
    *("kineto_v100_resnet_2021", "tl_mi300_resnet_ddp_recompute"),
)


@pytest.mark.parametrize("name", TRAINING)
def test_device_time_of_training_is_in_a_phase(trace_of, name):
    metrics = {row["metric"]: row["value"] for row in trace_of(name).health().to_dicts()}
    assert metrics["device_time_in_phase"] >= 99.0


@pytest.mark.parametrize(
    ("name", "phase", "counts"),
    [
        ("tl_mi300_sglang_prefill", "prefill", (15, 15_360, 0, 0)),
        ("tl_mi300_sglang_decode_graph", "decode", (0, 0, 32, 32)),
        ("tl_mi300_vllm_piecewise", "mixed", (9, 8_155, 37, 37)),
        ("tl_b200_vllm_eager", "prefill", (1, 888, 0, 0)),
    ],
)
def test_steps_of_serving_engines(trace_of, name, phase, counts):
    trace = trace_of(name)
    rows = trace.query("serving_steps").to_dicts()
    step = next(row for row in rows if row["step"] is not None)
    assert (step["phase"], tuple(step.values())[4:8]) == (phase, counts)
    (timeline,) = trace.query("timeline").to_dicts()
    modules = trace.query("serving_modules").to_dicts()
    assert sum(row["wall_ns"] for row in modules) == timeline["window_ns"]
    idle_ns = sum(row["wall_ns"] for row in modules if row["task"] == "idle")
    assert idle_ns == timeline["idle_ns"]


@pytest.mark.parametrize(
    ("name", "cause", "at_least"),
    [
        ("hta_alexnet_cudasync", "allocator", 0.65),
        ("hta_ddp_nccl_metadata", "host_bound", 0.96),
        ("hta_resnet_v100_ns", "launch_latency", 0.71),
        ("hta_a100_cudagraph", "unknown", 0.62),
        ("tl_b200_vllm_eager", "host_bound", 0.98),
        ("tl_h100_owlv2_large", "data_loading", 0.96),
        ("tl_mi300_sglang_decode_graph", "dependency", 0.99),
        ("cpu_llama_lora", "host_bound", 0.8),
    ],
)
def test_the_main_cause_of_idle_time(trace_of, name, cause, at_least):
    first, *rest = trace_of(name).query("idle_causes").to_dicts()
    assert first["cause"] == cause
    assert first["idle_ns"] >= at_least * (first["idle_ns"] + sum(r["idle_ns"] for r in rest))


def test_the_line_that_loads_the_data(trace_of):
    gaps = trace_of("tl_h100_owlv2_large").query("idle_gaps", cause="data_loading").to_dicts()
    assert len(gaps) == 4
    assert {gap["python_line"] for gap in gaps} == {"scipy/ndimage/_interpolation.py(739): zoom"}
    assert {gap["next_kernel"] for gap in gaps} == {"Memcpy HtoD (Pageable -> Device)"}


@pytest.mark.parametrize(
    ("name", "device", "event_count", "compute_ns", "window_ns"),
    [
        # 17 begin and end pairs; one of 280.967 µs is duplicated.
        ("aiu_flex_job4", "aiu", 17, 2_702_353 - 280_967, 731_380_489 - 719_617_232),
        # Ten kernels of 800 µs, one per ms; the window ends with the last kernel.
        ("synth_ascend", "npu", 10, 8_000_000, 9_800_000),
    ],
)
def test_devices_of_odd_traces(name, device, event_count, compute_ns, window_ns):
    path = SHARED / "odd_traces" / f"{name}.json.gz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    with tracekit.open(path) as trace:
        (row,) = trace.query("timeline").to_dicts()
        assert trace.query("trace").column("accelerator") == [device]
    found = (row["event_count"], row["compute_ns"], row["window_ns"])
    assert found == (event_count, compute_ns, window_ns)


def test_the_roles_of_decoders(trace_of):
    rows = trace_of("tl_b200_vllm_eager").query("roles").to_dicts()
    shares = {row["role"]: row["kernel_ns"] / sum(r["kernel_ns"] for r in rows) for row in rows}
    assert round(100 * shares["MLP"]) == 59
    assert round(100 * shares["non-overlapping communication"]) == 18
    assert shares["(unattributed)"] < 0.01
    # The order identifies kernels of a graph replay.
    graph = trace_of("tl_mi300_sglang_decode_graph").query("roles").to_dicts()
    (mlp,) = (row for row in graph if row["role"] == "MLP")
    assert mlp["inferred_ns"] == mlp["kernel_ns"]


# ---- recordings of an H200 -----------------------------------------------------------------------

BY_MODULES = (
    "SELECT a.phase, m.layer, sum(dur_ns)::BIGINT FROM attributed_events AS a "
    "JOIN module AS m USING (trace_id, module_id) "
    "WHERE m.layer IS NOT NULL AND a.phase IN ('forward', 'backward') "
    "GROUP BY a.phase, m.layer ORDER BY a.phase, m.layer"
)


@pytest.mark.parametrize(
    ("name", "layer_count"),
    [
        ("llama_stack.json.gz", 8),
        ("moe.json.gz", 4),
        ("runs/pretrain_Naive_batch_2/rank0.json.gz", 32),
        ("runs/finetune_L_batch_1/rank0.json.gz", 32),
    ],
)
def test_repeated_layers_are_those_of_modules(name, layer_count, tmp_path):
    """Layers by repetition, forward and backward, in recordings from which modules are taken."""
    source = SHARED / "h200" / name
    if not source.is_file():
        pytest.skip(f"no recording {source}")
    with tracekit.open(source, cache=False) as trace:
        right = trace.sql(BY_MODULES).rows
    document = json.loads(gzip.decompress(source.read_bytes()))
    document["traceEvents"] = [
        event
        for event in document["traceEvents"]
        if event.get("cat") != "python_function"
        and not str(event.get("name")).startswith(("nn.Module: ", "tk/module/"))
    ]
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(document), "utf-8")
    with tracekit.open(bare, cache=False) as trace:
        rows = trace.query("layers").to_dicts()
    found = [
        (row["phase"], row["layer"], row["kernel_ns"]) for row in rows if row["place"] == "layer"
    ]
    assert len(right) == 2 * layer_count
    # The accumulation of gradients is in no module, and runs in the blocks.
    expected = [
        (phase, layer, kernel_ns if phase == "forward" else pytest.approx(kernel_ns, rel=0.15))
        for phase, layer, kernel_ns in right
    ]
    assert sorted(found) == expected


@pytest.mark.parametrize(
    ("name", "step_ms", "share"),
    # The host of moe was faster than the host used to measure event costs.
    [("llama_base", 41.37, 0.06), ("moe", 24.61, 0.15), ("small_graph", 6.38, 0.06)],
)
def test_loops_whose_step_is_known(name, step_ms, share):
    """Steps that were timed without the profiler."""
    path = SHARED / "h200" / f"{name}.json.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    truth_ns = round(step_ms * 1e6)
    with tracekit.open(path) as trace:
        (row,) = trace.query("unprofiled").to_dicts()
        trace.assume_unprofiled_step(truth_ns)
        (known,) = trace.query("unprofiled").to_dicts()
    assert row["unprofiled_step_ns"] == pytest.approx(truth_ns, rel=share)
    assert row["low_ns"] <= truth_ns <= row["high_ns"]
    assert row["idle_pct"] == pytest.approx(known["idle_pct"], abs=5)
    assert 0.85 < known["host_factor"] < 1.15


def test_a_run_is_no_longer_than_its_recording(trace_of):
    """Of this trace the replay without the profiler has steps 4 % longer than those recorded."""
    (row,) = trace_of("deepseek_train_h800").query("unprofiled").to_dicts()
    assert row["work_ns"] <= row["unprofiled_step_ns"] <= row["recorded_step_ns"]
