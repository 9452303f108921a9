"""Serving: the batch of each step, the steady state, kinds of work, and why a request was slow."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import tracekit

Event = dict[str, Any]
Opened = Callable[[Path], tracekit.Trace]
REPO = Path(__file__).resolve().parents[2]
Tiny = Callable[..., Path]


class Engine:
    """Writes the trace of an engine on one GPU; each step launches its kernels one by one."""

    def __init__(self, gap_us: float = 1.0) -> None:
        self.events: list[Event] = []
        self.now_us = 0.0
        self._gap_us = gap_us
        self._correlation = 0

    def step(self, *names: str, kernels: Sequence[tuple[str, float]] = (("k", 8.0),)) -> None:
        """One step inside of ranges, the outermost first; the device waits before each kernel."""
        start = self.now_us
        self.now_us += 0.5
        for name, duration in kernels:
            self._kernel(name, duration)
        self.now_us += 0.5
        for name in names:
            self._span("user_annotation", name, 1, start, self.now_us - start)

    def tk_step(self, number: int, phase: str, batch: str | None = None, **more: Any) -> None:
        names = [f"tk/step/{number}", f"tk/phase/{phase}"]
        self.step(*names, *([f"tk/batch/{batch}"] if batch else []), **more)

    def _kernel(self, name: str, duration: float) -> None:
        self._correlation += 1
        self.now_us += self._gap_us
        linked = {"correlation": self._correlation, "device": 0, "stream": 7}
        self._span("cuda_runtime", "cudaLaunchKernel", 1, self.now_us - 0.25, 0.25, linked)
        self._span("kernel", name, 0, self.now_us, duration, linked)
        self.now_us += duration

    def _span(
        self, category: str, name: str, pid: int, start: float, dur: float, args: Any = None
    ) -> None:
        # Outer ranges begin first, so that they nest.
        tid = 7 if pid == 0 else 1
        named = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
        self.events.append({**named, "ts": start, "dur": dur, "args": args or {}})


def opened_now(write: Tiny, engine: Engine, **top_level: Any) -> tracekit.Trace:
    return tracekit.open(write(engine.events, **top_level), cache=False)


LONG_CONTEXT = "sq8155sk8430sqsq7475785sqsk7671310"
LONG_GENERATION = "sq37sk34489sqsq37sqsk34489"


# -- the batch of each step ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "phase", "counts"),
    [
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
        ("engine_step prefill_reqs=3 prefill_tokens=59 decode_reqs=3", "mixed", (3, 59, 3, 3, 6)),
    ],
)
def test_the_batch_is_read_from_the_name(
    tiny_trace: Tiny, name: str, phase: str, counts: tuple[int | None, ...]
) -> None:
    engine = Engine()
    engine.step(name)
    (row,) = opened_now(tiny_trace, engine).query("serving_steps").to_dicts()
    columns = [
        f"{kind}_{what}_count" for kind in ("prefill", "decode") for what in ("request", "token")
    ]
    assert row["phase"] == phase
    assert tuple(row[column] for column in [*columns, "request_count"]) == counts
    assert (row["step"], row["dur_ns"], row["kernel_count"]) == (0, 10_000, 1)
    assert (row["wall_ns"], row["idle_ns"]) == (8_000, 0)


def test_ranges_of_tracekit_win_and_keep_their_numbers(tiny_trace: Tiny) -> None:
    engine = Engine()
    engine.tk_step(7, "mixed", "prefill_2(64)_decode_3(3)")
    engine.tk_step(8, "decode", "prefill_0(0)_decode_5(5)", kernels=[("k", 4.0), ("k", 2.0)])
    engine.step("execute_context_1(9)_generation_0(0)")
    rows = opened_now(tiny_trace, engine).query("serving_steps").to_dicts()
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


def test_rows_add_up_to_the_window(tiny_trace: Tiny) -> None:
    engine = Engine()
    for number in range(4):
        engine.tk_step(number, "decode", "prefill_0(0)_decode_2(2)")
    trace = opened_now(tiny_trace, engine)
    (timeline,) = trace.query("timeline").to_dicts()
    for name in ("serving_steps", "serving_modules"):
        rows = trace.query(name).to_dicts()
        spent = sum(row["wall_ns"] + row.get("idle_ns", 0) for row in rows)
        assert spent == timeline["window_ns"], name


def test_a_phase_without_a_batch_is_a_step_too(tiny_trace: Tiny) -> None:
    engine = Engine()
    engine.tk_step(3, "prefill")
    trace = opened_now(tiny_trace, engine)
    (row,) = trace.query("serving_steps").to_dicts()
    assert (row["step"], row["phase"], row["request_count"], row["is_steady"]) == (
        *(3, "prefill"),
        *(None, None),
    )
    (found,) = trace.query("serving_window").to_dicts()
    assert found["step_count"] is None
    assert found["reason"] == (
        "the ranges of the steps do not tell how many requests are in each batch"
    )


def test_training_has_no_steps_of_serving(tiny_trace: Tiny) -> None:
    engine = Engine()
    engine.step("tk/step/0", "tk/phase/forward")
    trace = opened_now(tiny_trace, engine)
    for name in ("serving_steps", "serving_window", "request_steps"):
        assert trace.query(name).rows == []


# -- the steady state ------------------------------------------------------------------------------


def test_the_steady_state_is_the_longest_run_near_the_maximum(tiny_trace: Tiny) -> None:
    """10 running; 9 is within 10 %, 8 is not; a step that only reads prompts does not end it."""
    engine = Engine()
    sizes = [4, 10, 8, 10, 9, None, 10, 3]
    for number, size in enumerate(sizes):
        if size is None:
            engine.tk_step(number, "prefill", "prefill_2(32)_decode_0(0)")
        else:
            engine.tk_step(number, "decode", f"prefill_0(0)_decode_{size}({size})")
    trace = opened_now(tiny_trace, engine)
    (row,) = trace.query("serving_window").to_dicts()
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
    steady = trace.query("serving_steps").column("is_steady")
    assert steady == [False, False, False, True, True, True, True, False]
    (exact,) = trace.query("serving_window", tolerance_pct=0).to_dicts()
    assert (exact["first_step"], exact["last_step"]) == (1, 1)
    (loose,) = trace.query("serving_window", tolerance_pct=100).to_dicts()
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


def test_kinds_of_work_of_a_step(tiny_trace: Tiny) -> None:
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
    rows = opened_now(tiny_trace, engine).query("serving_modules").to_dicts()
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


def test_modules_tell_rope_and_norms_where_names_do_not(tiny_trace: Tiny) -> None:
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
    rows = opened_now(tiny_trace, engine).query("serving_modules").to_dicts()
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


# -- why a request was slow ------------------------------------------------------------------------

BASE_NS = 1_700_000_000_000_000_000


def serve_run(folder: Path, write: Tiny) -> Path:
    """A run of three steps of 10 µs from 100 µs on; request 1 waits until the second one."""
    engine = Engine()
    engine.now_us = 100.0
    engine.tk_step(0, "prefill", "prefill_1(8)_decode_0(0)")
    engine.tk_step(1, "mixed", "prefill_1(8)_decode_1(1)", kernels=[("k", 2.0), ("k", 6.0)])
    engine.tk_step(2, "decode", "prefill_0(0)_decode_2(2)")
    write(engine.events, f"{folder.name}/rank0.json", baseTimeNanoseconds=BASE_NS)
    stated = {
        "run_id": "serve-1",
        "tracekit_version": "0",
        "created_at": "2026-01-01T00:00:00Z",
        "stage": "serve",
        "engine": "transformers",
        "traces": ["rank0.json"],
        "load": {
            "request_count": 2,
            "prompt_token_count": 8,
            "max_new_token_count": 3,
            "start_unix_ns": BASE_NS + 50_000,
        },
    }
    (folder / "run.json").write_text(json.dumps(stated))
    lines = [
        request(0, 0, 0, first_token_ns=60_000, end_ns=82_000, steps=[[0, 2]]),
        request(1, 1, 0, first_token_ns=71_000, end_ns=82_500, steps=[[1, 2]]),
        request(2, 2, 0, first_token_ns=None, end_ns=9_000, steps=None, outcome="refused"),
        request(3, 0, 1, first_token_ns=60_000, end_ns=82_000, steps=[[0, 2]]),
    ]
    (folder / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def request(number: int, arrival_us: int, warmup: int, **members: Any) -> dict[str, Any]:
    return {
        "request_id": number,
        "is_warmup": bool(warmup),
        "outcome": "ok",
        "prompt_token_count": 8,
        "output_token_count": 3,
        "arrival_ns": arrival_us * 1_000,
        "sent_ns": arrival_us * 1_000,
        **members,
    }


def test_a_request_is_linked_to_its_steps(tiny_trace: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "serve"
    folder.mkdir()
    with tracekit.open(serve_run(folder, tiny_trace), cache=False) as trace:
        slow, fast = trace.query("request_steps").to_dicts()
        assert trace.query("request_steps", limit=1).to_dicts() == [slow]
        assert trace.query("request_steps", request=1).to_dicts() == [fast]
    assert (slow["run"], slow["request_id"], fast["request_id"]) == ("serve", 0, 1)
    assert (slow["is_profiled"], slow["ttft_ns"]) == (False, 60_000)
    assert (slow["e2e_ns"], fast["e2e_ns"]) == (82_000, 81_500)
    # Steps begin at 50, 60 and 71 µs of the load's clock.
    assert (slow["queue_ns"], fast["queue_ns"]) == (50_000, 59_000)
    assert (slow["step_count"], slow["traced_step_count"]) == (3, 3)
    assert (slow["prefill_step_count"], slow["prefill_ns"]) == (1, 10_000)
    assert (slow["decode_step_count"], slow["decode_step_ns"]) == (2, 10_500)
    assert (slow["longest_step"], slow["longest_step_ns"]) == (1, 11_000)
    assert (slow["wall_ns"], slow["idle_ns"]) == (24_000, 5_000)
    assert slow["idle_pct"] == pytest.approx(100 * 5 / 29)
    assert (fast["prefill_step_count"], fast["decode_step_count"]) == (1, 1)


def test_its_times_count_from_when_it_was_sent(tiny_trace: Tiny, tmp_path: Path) -> None:
    """The client held it back for 20 µs; these are the times of analysis requests."""
    folder = tmp_path / "serve"
    folder.mkdir()
    serve_run(folder, tiny_trace)
    line = request(0, 0, 0, first_token_ns=60_000, end_ns=82_000, steps=[[0, 2]], sent_ns=20_000)
    (folder / "requests.jsonl").write_text(json.dumps(line) + "\n")
    with tracekit.open(folder, cache=False) as trace:
        (row,) = trace.query("request_steps").to_dicts()
        (same,) = trace.query("requests").to_dicts()
    assert (row["e2e_ns"], row["ttft_ns"], row["queue_ns"]) == (62_000, 40_000, 30_000)
    assert (row["e2e_ns"], row["ttft_ns"]) == (same["e2e_ns"], same["ttft_ns"])


def test_steps_outside_of_the_profile_are_counted_but_not_timed(
    tiny_trace: Tiny, tmp_path: Path
) -> None:
    folder = tmp_path / "serve"
    folder.mkdir()
    serve_run(folder, tiny_trace)
    line = request(5, 0, 0, first_token_ns=1, end_ns=90_000, steps=[[-4, -3], [1, 9]])
    (folder / "requests.jsonl").write_text(json.dumps(line) + "\n")
    with tracekit.open(folder, cache=False) as trace:
        (row,) = trace.query("request_steps").to_dicts()
    assert (row["step_count"], row["traced_step_count"]) == (11, 2)
    assert row["queue_ns"] is None
    assert (row["prefill_step_count"], row["decode_step_count"]) == (0, 2)


def lives(trace: tracekit.Trace, **params: object) -> dict[int, list[tuple[Any, ...]]]:
    """Part, step, start and end in µs of the stretches of each request."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in trace.query("request_life", **params).to_dicts():
        stretch = (row["part"], row["step"], row["start_ns"] / 1_000, row["end_ns"] / 1_000)
        found.setdefault(row["request_id"], []).append(stretch)
    return found


def test_the_life_of_a_request_is_told_step_by_step(tiny_trace: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "serve"
    folder.mkdir()
    with tracekit.open(serve_run(folder, tiny_trace), cache=False) as trace:
        found = lives(trace)
        assert lives(trace, limit=1) == {0: found[0]}
        assert lives(trace, request=1) == {1: found[1]}
    assert list(found) == [0, 1, 2], "those in the trace first, then the one that was refused"
    assert found[0] == [
        ("queued", None, 0, 50),
        ("prefill", 0, 50, 60),
        ("decode", 1, 60, 71),
        ("decode", 2, 71, 81),
        ("answering", None, 81, 82),
    ]
    assert found[1] == [
        ("queued", None, 1, 60),
        ("prefill", 1, 60, 71),
        ("decode", 2, 71, 81),
        ("answering", None, 81, 82.5),
    ]
    assert found[2] == [("waiting", None, 2, 9)]


def test_a_life_says_what_no_trace_holds(tiny_trace: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "serve"
    folder.mkdir()
    serve_run(folder, tiny_trace)
    lines = [
        request(5, 0, 0, first_token_ns=1_000, end_ns=90_000, steps=[[-4, -3], [1, 9]]),
        # Its first step is in the trace, then steps of others, then its last.
        request(6, 0, 0, first_token_ns=60_500, end_ns=81_000, steps=[[0, 0], [2, 2]]),
        request(7, 0, 0, first_token_ns=30_000, end_ns=40_000, steps=None),
    ]
    (folder / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with tracekit.open(folder, cache=False) as trace:
        found = lives(trace)
    assert found[5] == [
        ("not traced", None, 0, 60),
        ("decode", 1, 60, 71),
        ("decode", 2, 71, 81),
        ("not traced", None, 81, 90),
    ]
    assert found[6] == [
        ("queued", None, 0, 50),
        ("prefill", 0, 50, 60),
        ("between steps", None, 60, 71),
        ("decode", 2, 71, 81),
    ]
    assert found[7] == [("waiting", None, 0, 30), ("answering", None, 30, 40)]


def test_lives_of_a_real_run_fill_the_time_of_its_requests(opened: Opened) -> None:
    trace = opened(REPO / "sample_traces" / "serve_transformers")
    rows = trace.query("request_life", limit=0).to_dicts()
    asked = {row["request_id"]: row for row in trace.query("request_steps", limit=0).to_dicts()}
    assert asked
    for number, row in asked.items():
        own = [one for one in rows if one["request_id"] == number]
        by_part = {part: sum(r["dur_ns"] for r in own if r["part"] == part) for part in PARTS}
        # The step that makes the last token may end a little after the client has it.
        late_ns = sum(one["end_ns"] for one in own[-1:]) - own[0]["start_ns"] - row["e2e_ns"]
        assert sum(one["dur_ns"] for one in own) == row["e2e_ns"] + max(late_ns, 0)
        assert late_ns < 1_000_000
        if row["traced_step_count"] == row["step_count"]:
            assert by_part["queued"] == row["queue_ns"]
            assert by_part["not traced"] == 0
        assert by_part["prefill"] == row["prefill_ns"]
        assert sum(one["step"] is not None for one in own) == row["traced_step_count"]


PARTS = ("queued", "prefill", "decode", "between steps", "not traced", "answering")
