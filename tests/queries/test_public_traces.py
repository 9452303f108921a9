"""Analyses of public traces and of recordings of a GPU, with known figures."""

import gzip
import json
from pathlib import Path

import pytest

import tracekit

pytestmark = pytest.mark.nightly("public traces beyond the eight of the gate")

SHARED = Path(__file__).parents[3] / "shared"

IS_PLACED = (
    "SELECT coalesce(sum(dur_ns) FILTER (row_name = '(unattributed)'), 0) <= 0.03 * sum(dur_ns) "
    "FROM attribution JOIN device_events USING (trace_id, event_id, piece) "
    "WHERE launch_id IS NOT NULL"
)
IS_IN_PHASES = "SELECT value >= 99 FROM health WHERE metric = 'device_time_in_phase'"
STEP = (
    "SELECT phase, prefill_request_count, prefill_token_count, decode_request_count, "
    "decode_token_count FROM serving_steps WHERE step IS NOT NULL LIMIT 1"
)
CAUSE = (
    "SELECT arg_max(cause, idle_ns), floor(100 * max(idle_ns) / sum(idle_ns))::INTEGER "
    "FROM idle_causes"
)
LOADING = (
    "SELECT python_line, next_kernel, count(*) FROM idle_gaps WHERE cause = 'data_loading' "
    "GROUP BY ALL"
)
ROLES = (
    "SELECT role, round(100 * sum(kernel_ns) / sum(sum(kernel_ns)) OVER ())::INTEGER FROM roles "
    "GROUP BY role ORDER BY 2 DESC LIMIT 2"
)
# The order identifies kernels of a graph replay.
MLP = "SELECT inferred_ns = kernel_ns FROM roles WHERE role = 'MLP'"
IS_COMPLETE = "SELECT (SELECT sum(wall_ns) FROM serving_modules) = sum(window_ns) FROM timeline"
# The replay without the profiler has longer steps than those recorded.
IS_BOUNDED = "SELECT unprofiled_step_ns BETWEEN work_ns AND recorded_step_ns FROM unprofiled"
OWLV2, VLLM, SGLANG = "tl_h100_owlv2_large", "tl_b200_vllm_eager", "tl_mi300_sglang_decode_graph"
PLACED = (VLLM, OWLV2, "tl_mi300_resnet_ddp_recompute", "tl_h100_qwen", "tl_mi300_sglang_prefill")
TRAINING = (
    *("cpu_llama_ckpt_module_ranges", "cpu_llama_lora", "cpu_llama_z3_rank0", "cpu_llama_z3_rank1"),
    *("deepseek_train_h800", "hta_a100_cudagraph", "hta_ddp_nccl_metadata", "hta_mi250_toy_train"),
    *("hta_resnet_v100_ns", "hta_sampled_rank0_noflows", "hta_sampled_rank1_noflows"),
    *("kineto_v100_resnet_2021", "tl_mi300_resnet_ddp_recompute"),
)


@pytest.mark.parametrize(
    ("name", "sql", "row"),
    [
        *((name, IS_PLACED, (True,)) for name in PLACED),
        *((name, IS_IN_PHASES, (True,)) for name in TRAINING),
        ("tl_mi300_sglang_prefill", STEP, ("prefill", 15, 15_360, 0, 0)),
        (SGLANG, STEP, ("decode", 0, 0, 32, 32)),
        ("tl_mi300_vllm_piecewise", STEP, ("mixed", 9, 8_155, 37, 37)),
        (VLLM, STEP, ("prefill", 1, 888, 0, 0)),
        ("hta_alexnet_cudasync", CAUSE, ("allocator", 66)),
        ("hta_ddp_nccl_metadata", CAUSE, ("host_bound", 96)),
        ("hta_resnet_v100_ns", CAUSE, ("launch_latency", 80)),
        ("hta_a100_cudagraph", CAUSE, ("unknown", 63)),
        (VLLM, CAUSE, ("host_bound", 99)),
        (OWLV2, CAUSE, ("data_loading", 96)),
        (SGLANG, CAUSE, ("dependency", 99)),
        ("cpu_llama_lora", CAUSE, ("host_bound", 80)),
        (
            *(OWLV2, LOADING),
            ("scipy/ndimage/_interpolation.py(739): zoom", "Memcpy HtoD (Pageable -> Device)", 4),
        ),
        (VLLM, ROLES, ("MLP", 59, "non-overlapping communication", 18)),
        (SGLANG, MLP, (True,)),
        *((name, IS_COMPLETE, (True,)) for name in (VLLM, SGLANG)),
        ("deepseek_train_h800", IS_BOUNDED, (True,)),
    ],
)
def test_figures(opened, public_traces, name, sql, row):
    rows = opened(public_traces / f"{name}.json.gz").sql(sql).rows
    assert tuple(value for row in rows for value in row) == row


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
    with tracekit.open(_shared(f"odd_traces/{name}.json.gz")) as trace:
        (row,) = trace.query("timeline").to_dicts()
        assert trace.query("trace").column("accelerator") == [device]
    found = (row["event_count"], row["compute_ns"], row["window_ns"])
    assert found == (event_count, compute_ns, window_ns)


def _shared(name):
    if not (SHARED / name).is_file():
        pytest.skip(f"no {SHARED / name}")
    return SHARED / name


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
    source = _shared(f"h200/{name}")
    with tracekit.open(source, cache=False) as trace:
        right = trace.sql(
            "SELECT a.phase, m.layer, sum(dur_ns)::BIGINT FROM attributed_events AS a "
            "JOIN module AS m USING (trace_id, module_id) "
            "WHERE m.layer IS NOT NULL AND a.phase IN ('forward', 'backward') GROUP BY ALL"
        ).rows
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
        found = trace.sql("SELECT phase, layer, kernel_ns FROM layers WHERE place = 'layer'").rows
    assert len(right) == 2 * layer_count
    # The accumulation of gradients is in no module, and runs in the blocks.
    expected = [
        (phase, layer, kernel_ns if phase == "forward" else pytest.approx(kernel_ns, rel=0.15))
        for phase, layer, kernel_ns in sorted(right)
    ]
    assert sorted(found) == expected


@pytest.mark.parametrize(
    ("name", "step_ms", "share"),
    # The host of moe was faster than the host used to measure event costs.
    [("llama_base", 41.37, 0.06), ("moe", 24.61, 0.15), ("small_graph", 6.38, 0.06)],
)
def test_loops_whose_step_is_known(name, step_ms, share):
    """Steps that were timed without the profiler."""
    truth_ns = round(step_ms * 1e6)
    with tracekit.open(_shared(f"h200/{name}.json.gz")) as trace:
        (row,) = trace.query("unprofiled").to_dicts()
        trace.assume_unprofiled_step(truth_ns)
        (known,) = trace.query("unprofiled").to_dicts()
    assert row["unprofiled_step_ns"] == pytest.approx(truth_ns, rel=share)
    assert row["low_ns"] <= truth_ns <= row["high_ns"]
    assert row["idle_pct"] == pytest.approx(known["idle_pct"], abs=5)
    assert 0.85 < known["host_factor"] < 1.15
