"""Serving: the batch of each step, the steady state, kinds of work, and why a request was slow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import AskedByRank, Cases
from serving_engine import Engine

import tracekit

Event = dict[str, Any]
Opened = Callable[[Path], tracekit.Trace]


CASES = Cases()
asked = CASES.fixture()

LONG_CONTEXT = "sq8155sk8430sqsq7475785sqsk7671310"
LONG_GENERATION = "sq37sk34489sqsq37sqsk34489"


# -- the batch of each step ------------------------------------------------------------------------


# The name of a step, its phase, requests and tokens of both kinds, and requests together.
NAMES: list[tuple[str, str, tuple[int | None, ...]]] = [
    ("execute_context_6(187)_generation_0(0)", "prefill", (6, 187, 0, 0, 6)),
    ("execute_context_1(888_788544)_generation_0(0)", "prefill", (1, 888, 0, 0, 1)),
    ("execute_context_0(0)_generation_3(3)", "decode", (0, 0, 3, 3, 3)),
    (
        f"execute_8192_context_9({LONG_CONTEXT})_generation_37({LONG_GENERATION})",
        *("mixed", (9, 8155, 37, 37, 46)),
    ),
    ("execute_context_2_generation_5", "mixed", (2, None, 5, None, 7)),
    ("step[EXTEND bs=15 toks=15360]", "prefill", (15, 15360, 0, 0, 15)),
    ("step[DECODE bs=32]", "decode", (0, 0, 32, 32, 32)),
    ("step[MIXED bs=9 toks=4096]", "mixed", (None, None, None, None, 9)),
    ("step[EXTEND bs=2 toks=12 c_sqsq=80 c_sqsk=120 c_sk=20]", "prefill", (2, 12, 0, 0, 2)),
    ("step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=9 g_sk=7]", "decode", (0, 0, 64, 128, 64)),
    ("step[MIXED bs=3 c=1 g=2 c_sq=5 c_sk=8 g_sq=2 g_sk=12]", "mixed", (1, 5, 2, 2, 3)),
    ("step[mixed bs=9 ext=4096 dec=7]", "mixed", (2, 4096, 7, 7, 9)),
    ("step[prefill bs=3 toks=300]", "prefill", (3, 300, 0, 0, 3)),
    ("step[TARGET_VERIFY bs=23]", "verify", (0, 0, 23, None, 23)),
    ("engine_step prefill_reqs=3 prefill_tokens=59 decode_reqs=3", "mixed", (3, 59, 3, 3, 6)),
]


def one_step(name: str) -> list[dict[str, Any]]:
    engine = Engine()
    engine.step(name)
    return engine.events


NAMED = [(CASES.add(one_step(name)), phase, counts) for name, phase, counts in NAMES]


@pytest.mark.parametrize(("rank", "phase", "counts"), NAMED, ids=[name for name, *_ in NAMES])
def test_the_batch_is_read_from_the_name(
    asked: AskedByRank, rank: int, phase: str, counts: tuple[int | None, ...]
) -> None:
    (row,) = asked.rows(rank, "serving_steps")
    columns = [
        f"{kind}_{what}_count" for kind in ("prefill", "decode") for what in ("request", "token")
    ]
    assert row["phase"] == phase
    assert tuple(row[column] for column in [*columns, "request_count"]) == counts
    assert (row["step"], row["dur_ns"], row["kernel_count"]) == (0, 10_000, 1)
    assert (row["wall_ns"], row["idle_ns"]) == (8_000, 0)


def own_ranges() -> list[Event]:
    engine = Engine()
    engine.tk_step(7, "mixed", "prefill_2(64)_decode_3(3)")
    engine.tk_step(8, "decode", "prefill_0(0)_decode_5(5)", kernels=[("k", 4.0), ("k", 2.0)])
    engine.step("execute_context_1(9)_generation_0(0)")
    return engine.events


OWN_RANGES = CASES.add(own_ranges())


def test_ranges_of_tracekit_win_and_keep_their_numbers(asked: AskedByRank) -> None:
    rows = asked.rows(OWN_RANGES, "serving_steps")
    assert [(row["step"], row["phase"], row["request_count"]) for row in rows] == [
        (7, "mixed", 5),
        (8, "decode", 5),
        (None, None, None),
    ]
    assert [(row["wall_ns"], row["idle_ns"]) for row in rows] == [
        (8_000, 0),
        (6_000, 3_000),
        (8_000, 2_000),
    ]


def four_steps() -> list[Event]:
    engine = Engine()
    for number in range(4):
        engine.tk_step(number, "decode", "prefill_0(0)_decode_2(2)")
    return engine.events


FOUR_STEPS = CASES.add(four_steps())


def test_rows_add_up_to_the_window(asked: AskedByRank) -> None:
    (timeline,) = asked.rows(FOUR_STEPS, "timeline")
    for name in ("serving_steps", "serving_modules"):
        rows = asked.rows(FOUR_STEPS, name)
        spent = sum(row["wall_ns"] + row.get("idle_ns", 0) for row in rows)
        assert spent == timeline["window_ns"], name


def without_batch() -> list[Event]:
    engine = Engine()
    engine.tk_step(3, "prefill")
    return engine.events


WITHOUT_BATCH = CASES.add(without_batch())


def test_a_phase_without_a_batch_is_a_step_too(asked: AskedByRank) -> None:
    (row,) = asked.rows(WITHOUT_BATCH, "serving_steps")
    assert (row["step"], row["phase"], row["request_count"], row["is_steady"]) == (
        *(3, "prefill"),
        *(None, None),
    )
    (found,) = asked.rows(WITHOUT_BATCH, "serving_window")
    assert found["step_count"] is None
    assert found["reason"] == (
        "the ranges of the steps do not tell how many requests are in each batch"
    )


def of_training() -> list[Event]:
    engine = Engine()
    engine.step("tk/step/0", "tk/phase/forward")
    return engine.events


OF_TRAINING = CASES.add(of_training())


def test_training_has_no_steps_of_serving(asked: AskedByRank) -> None:
    for name in ("serving_steps", "serving_window", "request_steps"):
        assert asked.rows(OF_TRAINING, name) == []


# -- the steady state ------------------------------------------------------------------------------


def steady() -> list[Event]:
    """10 running; 9 is within 10 %, 8 is not; a step that only reads prompts does not end it."""
    engine = Engine()
    sizes = [4, 10, 8, 10, 9, None, 10, 3]
    for number, size in enumerate(sizes):
        if size is None:
            engine.tk_step(number, "prefill", "prefill_2(32)_decode_0(0)")
        else:
            engine.tk_step(number, "decode", f"prefill_0(0)_decode_{size}({size})")
    return engine.events


STEADY = CASES.add(steady())


def test_the_steady_state_is_the_longest_run_near_the_maximum(asked: AskedByRank) -> None:
    (row,) = asked.rows(STEADY, "serving_window")
    assert (row["first_step"], row["last_step"], row["step_count"]) == (3, 6, 4)
    assert (row["prefill_step_count"], row["decode_step_count"], row["mixed_step_count"]) == (
        1,
        3,
        0,
    )
    assert (row["max_running_count"], row["prefill_token_count"]) == (10, 32)
    assert row["decode_token_count"] == 29
    assert row["mean_running_count"] == pytest.approx(29 / 3)
    assert (row["start_ns"], row["dur_ns"]) == (30_000, 40_000)
    assert (row["wall_ns"], row["idle_ns"]) == (32_000, 8_000)
    assert row["decode_tokens_per_s"] == pytest.approx(29 / 40e-6)
    assert row["trace_pct"] == pytest.approx(50)
    steady = [row["is_steady"] for row in asked.rows(STEADY, "serving_steps")]
    assert steady == [False, False, False, True, True, True, True, False]
    (exact,) = asked.rows(STEADY, "serving_window", tolerance_pct=0)
    assert (exact["first_step"], exact["last_step"]) == (1, 1)
    (loose,) = asked.rows(STEADY, "serving_window", tolerance_pct=100)
    assert loose["step_count"] == 8


def test_steps_of_public_engines(opened: Opened, public_traces: Path) -> None:
    trace = opened(public_traces / "cpu_llama_serving_cb.json.gz")
    rows = trace.query("serving_steps").to_dicts()
    assert [row["phase"] for row in rows[:3]] == ["prefill", "mixed", "decode"]
    (found,) = trace.query("serving_window").to_dicts()
    assert (found["step_count"], found["max_running_count"]) == (15, 6)
    for name, counts in {
        "tl_mi300_sglang_prefill": (15, 15_360, 0, 0),
        "tl_mi300_sglang_decode_graph": (0, 0, 32, 32),
        "tl_mi300_vllm_piecewise": (9, 8_155, 37, 37),
        "tl_b200_vllm_eager": (1, 888, 0, 0),
    }.items():
        rows = opened(public_traces / f"{name}.json.gz").query("serving_steps").to_dicts()
        step = next(row for row in rows if row["step"] is not None)
        assert tuple(step.values())[4:8] == counts, name


# -- kinds of work ---------------------------------------------------------------------------------


def kinds() -> list[Event]:
    """One kernel of each kind, a µs of idle before all but the first."""
    kernels = [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::add>(int)", 1.0),
        ("_rotary_kernel", 2.0),
        ("_fwd_kernel_token_att1", 3.0),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn", 4.0),
        ("_rms_norm_fwd_fused", 5.0),
        ("void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64>>(Flash_fwd_params)", 6.0),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(float)", 7.0),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 8.0),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 9.0),
        ("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 10.0),
    ]
    engine = Engine()
    for number in range(2):
        engine.tk_step(number, "decode", "prefill_0(0)_decode_1(1)", kernels=kernels)
    return engine.events


KINDS = CASES.add(kinds())


def test_kinds_of_work_of_a_step(asked: AskedByRank) -> None:
    rows = asked.rows(KINDS, "serving_modules")
    assert {row["phase"] for row in rows} == {"decode"}
    assert {row["step_count"] for row in rows} == {2}
    assert [(row["task_group"], row["task"], row["wall_ns"]) for row in rows] == [
        ("computation", "element-wise", 2_000),
        ("computation", "RoPE", 4_000),
        ("computation", "Triton", 6_000),
        ("computation", "GEMM", 8_000),
        ("computation", "RMSNorm", 10_000),
        ("computation", "attention", 12_000),
        ("computation", "other", 14_000),
        ("communication", "all-reduce", 16_000),
        ("communication", "all-gather", 18_000),
        ("communication", "other", 20_000),
        ("rest", "idle", 20_000),
    ]
    assert sum(row["phase_pct"] for row in rows) == pytest.approx(100)
    assert rows[3]["step_wall_ns"] == 4_000


def rope_and_norms() -> list[Event]:
    engine = Engine()
    add = "void at::native::vectorized_elementwise_kernel<4, at::native::mul>(int)"
    start = engine.now_us
    engine.step(
        "tk/module/forward/model.layers.0.input_layernorm#LlamaRMSNorm", kernels=[(add, 3.0)]
    )
    engine.step("tk/part/rope", kernels=[(add, 5.0)])
    engine.step("tk/module/forward/model.layers.0.mlp#LlamaMLP", kernels=[(add, 7.0)])
    for name in ("tk/step/0", "tk/phase/prefill", "tk/batch/prefill_1(4)_decode_0(0)"):
        engine._span("user_annotation", name, 1, start, engine.now_us - start)
    # Ranges that begin together nest in the order of the file: the outer ones first.
    engine.events.sort(key=lambda event: (event["ts"], -event["dur"]))
    return engine.events


ROPE_AND_NORMS = CASES.add(rope_and_norms())


def test_modules_tell_rope_and_norms_where_names_do_not(asked: AskedByRank) -> None:
    rows = asked.rows(ROPE_AND_NORMS, "serving_modules")
    found = {row["task"]: row["wall_ns"] for row in rows}
    assert found == {"RMSNorm": 3_000, "RoPE": 5_000, "element-wise": 7_000, "idle": 4_000}


def test_every_nanosecond_of_real_engines_is_in_one_row(
    opened: Opened, public_traces: Path
) -> None:
    for name in ("tl_b200_vllm_eager", "tl_mi300_sglang_decode_graph", "cpu_llama_serving_cb"):
        trace = opened(public_traces / f"{name}.json.gz")
        (timeline,) = trace.query("timeline").to_dicts()
        rows = trace.query("serving_modules").to_dicts()
        assert sum(row["wall_ns"] for row in rows) == timeline["window_ns"]
        idle = sum(row["wall_ns"] for row in rows if row["task"] == "idle")
        assert idle == timeline["idle_ns"]
