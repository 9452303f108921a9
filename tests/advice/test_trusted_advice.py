"""What holds for every advice: it gains no more than was seen, and proposes nothing in use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from every_trace import FOLDER, PATHS, Answered, on_every_trace
from traces_by_hand import call, kernel, span, work

import tracekit
from tracekit.prediction.advising import Advised, gain_text, recording_text
from tracekit.prediction.predicting import RunStep

Tiny = Callable[..., Path]
H200 = FOLDER.parent / "h200"
MEASURED = [
    *("llama_base.json.gz", "llama_eager.json.gz", "llama_item_layer.json.gz"),
    *("llama_pageable.json.gz", "small_compile_graphs.json.gz", "streams.json.gz"),
    *("runs/methods/pretrain_R", "runs/loops/compiled_Trainer"),
]
SILU = "void at::native::vectorized_elementwise_kernel<8, at::native::silu_kernel>"


def claims_broken(trace: tracekit.Trace, advised: Advised) -> list[str]:
    """Return what of the advice does not hold."""
    ran = {
        "sync": trace.query("sync_waits").to_dicts(),
        "causes": trace.query("idle_causes").to_dicts(),
        "phases": trace.query("phases").to_dicts(),
        "classes": trace.query("kernel_classes").to_dicts(),
    }
    idle_ns = sum(row["idle_ns"] for row in ran["causes"])
    kernel_ns = sum(row["kernel_ns"] for row in ran["classes"])
    sums = {
        "advice_sync": sum(row["wait_ns"] for row in ran["sync"]),
        "advice_launch_bound": sum(
            row["idle_ns"] for row in ran["causes"] if row["cause"] == "host_bound"
        ),
        "advice_python": idle_ns,
        "advice_recompute": sum(
            row["kernel_ns"] + row["idle_ns"]
            for row in ran["phases"]
            if row["phase"] == "recompute"
        ),
        "advice_fusion": kernel_ns,
        "advice_attention": kernel_ns,
        "advice_precision": kernel_ns,
    }
    rows = advised.as_result().to_dicts()
    broken = []
    for one, row in zip(advised.advice, rows, strict=True):
        seen = one.candidate
        if not row["low_pct"] <= row["gain_pct"] <= row["high_pct"]:
            broken.append(f"{seen.rule}: {row['gain_pct']} is not in its interval")
        if one.load is not None:
            continue
        if seen.cost_ns is not None and one.gain_ns > seen.cost_ns:
            broken.append(f"{seen.rule}: gains {one.gain_ns} of {seen.cost_ns}")
        if seen.rule in sums and (seen.cost_ns or 0) > sums[seen.rule]:
            broken.append(
                f"{seen.rule}: sees {seen.cost_ns}, and {seen.evidence} {sums[seen.rule]}"
            )
        if row["step_gain_ns"] is not None:
            # Of three steps and more it is that of all but the first.
            steps = max(advised.step_count - (advised.step_count > 2), 1)
            if row["step_gain_ns"] * steps > one.gain_ns:
                broken.append(f"{seen.rule}: steps gain more than the window")
            idle_ns = advised.run_step.idle_ns if advised.run_step is not None else None
            if idle_ns is not None and seen.is_of_host and row["step_gain_ns"] > idle_ns:
                broken.append(f"{seen.rule}: gains more than a step without the profiler is idle")
        if not one.gain_ns - 1 <= one.joint_gain_pct * advised.before_ns / 100:
            broken.append(f"{seen.rule}: gains less with others")
    return broken


@on_every_trace
def test_no_more_is_gained_than_was_seen(answered: Answered, path: Path) -> None:
    trace = answered(path).trace
    if not trace.query("timeline").rows:
        pytest.skip("no work of a device is recorded")
    assert claims_broken(trace, trace.advise()) == []


@pytest.mark.parametrize("name", MEASURED)
def test_no_more_is_gained_than_was_seen_on_a_gpu(name: str) -> None:
    if not (H200 / name).exists():
        pytest.skip(f"{H200 / name} is not there")
    with tracekit.open(H200 / name) as trace:
        advised = trace.advise()
        assert claims_broken(trace, advised) == []
    rules = [one.candidate.rule for one in advised.advice]
    remedies = " ".join(one.candidate.remedy for one in advised.advice)
    if name == "llama_eager.json.gz":
        # Of the steps without the profiler 55.1 ms, 13.7 went with fused attention.
        assert rules[0] == "advice_attention"
        assert advised.advice[0].range_pct[1] > 100 * 3 * 13.7e6 / advised.before_ns - 1.5
    if "compile" in name:
        assert "torch.compile" not in remedies
    if name == "small_compile_graphs.json.gz":
        assert "reduce-overhead" not in remedies
        assert "fused=True" not in remedies
    if name == "streams.json.gz":
        assert rules == []


def test_every_trace_is_asked() -> None:
    assert len(PATHS) > 5


def advice(path: Path) -> Advised:
    with tracekit.open(path, cache=False) as trace:
        return trace.advise()


def late_launches(count: int = 20, *, name: str = "k", gap: int = 100) -> list[dict[str, Any]]:
    """Return forward work of 10 µs that is launched late, at the end of an op."""
    events = [span("user_annotation", "tk/phase/forward", 0, count * gap + 10)]
    for i in range(count):
        at = i * gap
        events.append(span("cpu_op", "aten::add", at, at + gap - 1))
        events += work(at + gap - 10, at + gap - 5, at + gap + 5, i + 1, name)
    return events


def test_a_launch_does_not_pause(tiny_trace: Tiny) -> None:
    """A program that sleeps for 20 ms, or reads a file under its own name, is no launch."""
    events = late_launches(4)
    begin = 20_500
    for pause in ([], [span("python_function", "data.py(7): load", 600, begin - 10)]):
        shifted = [
            *events,
            *pause,
            span("cpu_op", "aten::add", begin, begin + 20),
            *work(begin + 10, begin + 20, begin + 30, 9),
        ]
        shifted[0] = span("user_annotation", "tk/phase/forward", 0, begin + 40)
        advised = advice(tiny_trace(shifted))
        launches = [one for one in advised.advice if one.candidate.is_of_launches]
        assert sum(one.gain_ns for one in launches) < 400_000
        assert sum(one.candidate.cost_ns or 0 for one in launches) < 400_000
        if pause:
            assert advised.advice[0].candidate.place == "data.py(7): load"
            assert advised.advice[0].gain_ns > 19_000_000


def test_delays_of_the_device_stay(tiny_trace: Tiny) -> None:
    """Kernels that were launched long before, each 10 µs behind the one before it."""
    events = [span("user_annotation", "tk/phase/forward", 0, 2_000)]
    events += [one for i in range(40) for one in work(i, 100 + 20 * i, 110 + 20 * i, i + 1)]
    assert not [one for one in advice(tiny_trace(events)).advice if one.candidate.is_of_launches]


@pytest.mark.parametrize("launch", ["cudaLaunchKernel", "cudaGraphLaunch"])
def test_graphs_that_are_in_use(tiny_trace: Tiny, launch: str) -> None:
    events = late_launches()
    for event in events:
        if event["cat"] == "cuda_runtime":
            event["name"] = launch
    given = [one.candidate.rule for one in advice(tiny_trace(events)).advice]
    assert given == (["advice_launch_bound"] if launch == "cudaLaunchKernel" else [])


def test_what_is_compiled_is_not_compiled_again(tiny_trace: Tiny) -> None:
    region = span("user_annotation", "Torch-Compiled Region: 0/0", 0, 2_005)
    for is_compiled in (False, True):
        events = [*late_launches(), *([region] if is_compiled else [])]
        (only,) = advice(tiny_trace(events)).advice
        assert ("torch.compile(" in only.candidate.remedy) is not is_compiled
        assert "reduce-overhead" in only.candidate.remedy


def test_a_plain_loop_that_generates_has_no_option_of_an_engine(tiny_trace: Tiny) -> None:
    passes = [
        span("cpu_op", "aten::embedding", at, at + 1, **{"Input Dims": [[100, 8], [1, count]]})
        for at, count in ((0, 16), (500, 1), (1_000, 1), (1_500, 1))
    ]
    engine = [span("user_annotation", "tk/phase/decode", 0, 2_010)]
    for events, words in ((passes, "torch.compile("), (engine, "vLLM")):
        given = advice(tiny_trace([*late_launches()[1:], *events])).advice
        (only,) = (one for one in given if one.candidate.rule == "advice_launch_bound")
        assert words in only.candidate.remedy


def test_an_optimizer_that_is_fused(tiny_trace: Tiny) -> None:
    events = [span("user_annotation", "Optimizer.step#AdamW.step", 0, 2_000)]
    for i in range(30):
        events.append(span("cpu_op", "aten::_fused_adamw_", 10 + 50 * i, 20 + 50 * i))
        events += work(12 + 50 * i, 14 + 50 * i, 24 + 50 * i, i + 1, "FusedAdamMathFunctor")
    remedies = [one.candidate.remedy for one in advice(tiny_trace(events)).advice]
    assert not [text for text in remedies if "fused=True" in text]


@pytest.mark.parametrize(("memory", "stream", "is_said"), [
    ("Pinned", 9, False), ("Pinned", 7, True), ("Pageable", 9, True),
])  # fmt: skip
def test_copies_that_run_beside(tiny_trace: Tiny, memory: str, stream: int, is_said: bool) -> None:
    events = []
    for i in range(5):
        at = i * 300
        events += [
            call(at, at + 2, 2 * i + 1, "cudaMemcpyAsync"),
            kernel(f"Memcpy HtoD ({memory} -> Device)", at + 5, at + 105, 2 * i + 1,
                   stream=stream, bytes=1 << 20),
            *work(at + 10, at + 106, at + 290, 2 * i + 2),
        ]  # fmt: skip
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        rows = trace.query("advice_copies").to_dicts()
    assert bool(rows) is is_said
    assert all(("pin the memory" in row["remedy"]) is (memory == "Pageable") for row in rows)


def read(op: str, at: int, number: int) -> list[dict[str, Any]]:
    """Return what reads a value of the device for 50 µs."""
    inner = [("aten::is_nonzero", -2), ("aten::item", -1), ("aten::_local_scalar_dense", 0)]
    return [
        *(span("cpu_op", name, at + by, at + 60 - by) for name, by in inner[op == "item" :]),
        call(at + 1, at + 3, number, "cudaMemcpyAsync"),
        kernel("Memcpy DtoH (Device -> Pinned)", at + 50, at + 52, number),
        call(at + 4, at + 54, 1_000 + number, "cudaStreamSynchronize"),
    ]


def test_what_waits_for_the_device_is_named(tiny_trace: Tiny) -> None:
    events = []
    for step in range(3):
        at = 1_000 * step
        events += [
            span("user_annotation", f"ProfilerStep#{step}", at, at + 1_000),
            span("cpu_op", "aten::all", at + 10, at + 20),
            *work(at + 12, at + 40, at + 150, 10 * step + 1),
            *read("test", at + 100, 10 * step + 2),
            span("cpu_op", "aten::max", at + 200, at + 210),
            *work(at + 202, at + 220, at + 350, 10 * step + 3),
            *read("item", at + 300, 10 * step + 4),
            *work(at + 500, at + 510, at + 900, 10 * step + 5),
        ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        rows = trace.query("sync_waits").to_dicts()
        (row,) = trace.query("advice_sync").to_dicts()
    assert {(one["is_tested"], one["after_op"], one["wait_count"]) for one in rows} == {
        (False, "aten::max", 3),
        (True, "aten::all", 3),
    }
    assert row["cost_ns"] == sum(one["wait_ns"] for one in rows) == 6 * 50_000
    assert "1 a step .item() after aten::max 0.150 ms" in row["what"]
    assert "1 a step `if tensor:` after aten::all 0.150 ms" in row["what"]
    assert "every 100 steps" in row["remedy"]
    assert "attention mask" in row["remedy"]


def in_pieces(phase: str = "forward") -> list[dict[str, Any]]:
    events = [span("user_annotation", f"tk/phase/{phase}", 0, 200)]
    parts = [("aten::bmm", "nvjet_qk", 100), ("aten::_softmax", "softmax_warp_forward", 200),
             ("aten::bmm", "nvjet_pv", 100)]  # fmt: skip
    at = 300
    for i, (op, name, length) in enumerate(parts):
        events.append(span("cpu_op", op, 20 * i, 20 * i + 15))
        events += work(20 * i + 5, at, at + length, i + 1, name)
        at += length
    return events


def test_attention_in_pieces_without_modules(tiny_trace: Tiny) -> None:
    advised = advice(tiny_trace(in_pieces()))
    first = advised.advice[0]
    assert first.candidate.rule == "advice_attention"
    assert (first.candidate.cost_ns, first.gain_ns) == (200_000, 200_000)
    assert advised.before_ns == 400_000
    with tracekit.open(tiny_trace(in_pieces(), "again.json"), cache=False) as trace:
        assert trace.predict("attention fused").predicted_ns == 200_000
    events = in_pieces()
    for event in events:
        if event["name"] == "aten::bmm":
            event["name"] = "aten::mm"  # a classifier's head between two products
    assert not advice(tiny_trace(events, "other.json")).advice


def test_chains_of_kernels_without_modules(tiny_trace: Tiny) -> None:
    names = [
        "nvjet",
        SILU,
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp>",
        SILU,
        "nvjet",
    ]
    events = [span("user_annotation", "tk/phase/forward", 0, 100)]
    for i, name in enumerate(names):
        events += work(2 * i, 100 + 10 * i, 110 + 10 * i, i + 1, name)
    for is_compiled in (False, True):
        if is_compiled:
            events.append(span("user_annotation", "Torch-Compiled Region: 0/0", 0, 50))
        with tracekit.open(tiny_trace(events), cache=False) as trace:
            rows = trace.query("advice_fusion").to_dicts()
        assert [row["cost_ns"] for row in rows] == ([] if is_compiled else [20_000])


def test_functions_of_torch_are_nobodys_to_leave_out(tiny_trace: Tiny) -> None:
    names = ["torch/optim/adam.py(139): _init_group", "/usr/lib/torch/utils/checkpoint.py(1): hook",
             "nccl:all_reduce", "tracekit/collectors/ranges/modules.py(280): _turn_of"]  # fmt: skip
    for name in names:
        kind = "user_annotation" if name.startswith("nccl") else "python_function"
        events = [
            *work(0, 5, 20, 1), span(kind, name, 30, 130), *work(140, 145, 160, 2),
        ]  # fmt: skip
        with tracekit.open(tiny_trace(events), cache=False) as trace:
            assert trace.query("advice_python").to_dicts() == [], name


def stepped(run: Path, plain_us: int, profiled_us: int) -> Path:
    """Write a run whose steps take 2,000 µs recorded, and 200 of them on the device."""
    events = []
    for step in range(3):
        begin = 2_000 * step
        events.append(span("user_annotation", f"ProfilerStep#{step}", begin, begin + 2_000))
        late = [{**one, "ts": one["ts"] + begin} for one in late_launches()]
        for one in late:
            if "correlation" in one.get("args", {}):
                one["args"] = one["args"] | {"correlation": one["args"]["correlation"] + 100 * step}
        events += late
    (run / "rank0.json").write_text(json.dumps({"traceEvents": events}))
    manifest = json.loads((run / "run.json").read_text())
    manifest["overhead"] = {
        "plain_step_ns": 1_000 * plain_us, "ranges_step_ns": 1_000 * plain_us,
        "profiled_step_ns": 1_000 * profiled_us, "export_stall_ns": None,
    }  # fmt: skip
    (run / "run.json").write_text(json.dumps(manifest))
    return run


def test_of_an_interval_its_end_bounds_the_idle_time_of_a_run() -> None:
    step = RunStep(1_000, None, 300, 500, 200, "constants", "too wide for one figure")
    assert (step.idle_ns, step.idle_share) == (300, 0.375)


def test_a_run_gains_no_more_than_its_device_is_idle(make_run: Callable[..., Path]) -> None:
    advised = advice(stepped(make_run("run"), 500, 2_000))
    assert advised.run_step is not None
    assert advised.run_step.idle_ns == 300_000
    (only,) = advised.advice
    assert not only.is_upper_bound
    # Of the idle time 1,800 µs recorded, 300 are the run's.
    assert only.step_gain_ns is not None
    assert 100_000 < only.step_gain_ns <= 300_000
    assert recording_text(advised.run_step) == (
        "The recording is 4.0 times as long as the run, of which a step takes 500.000 µs. Only the "
        "recording is replayed: the host would have to be 0.26 times as slow as its events and its "
        "speed tell: not this program, or the machine was in another state"
    )


def test_without_a_plain_step_launches_are_an_upper_bound_and_come_last(tiny_trace: Tiny) -> None:
    events = late_launches()
    for i in range(5):
        events += work(2_010 + i, 2_020 + 50 * i, 2_070 + 50 * i, 100 + i, "nchwToNhwcKernel")
    advised = advice(tiny_trace(events))
    rows = advised.as_result().to_dicts()
    assert rows[-1]["rule"] == "advice_launch_bound"
    assert (rows[-1]["is_upper_bound"], rows[0]["is_upper_bound"]) == (True, False)
    assert rows[-1]["gain_pct"] > rows[0]["gain_pct"]
    assert gain_text(rows[-1]).startswith("up to ")
    assert gain_text(rows[-1]).endswith(" of the recording")


def test_changes_reach_work_without_a_launch(tiny_trace: Tiny) -> None:
    """What was queued before the window has the op of what it repeats; all else waits for it."""
    names = ["gemm_a", "elem_b", "gemm_c", "elem_d", "gemm_e", "elem_f"]
    events = [kernel(name, 900 + 200 * i, 1_100 + 200 * i, 900 + i) for i, name in enumerate(names)]
    for number in range(2 * len(names)):
        at, name = 1_100 + 60 * number, names[number % len(names)]
        op = "aten::mm" if name.startswith("gemm") else "aten::add"
        events += [
            span("cpu_op", op, at, at + 15),
            *work(at + 1, 2_100 + 50 * number, 2_150 + 50 * number, number + 1, name),
        ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        queued = trace.sql("SELECT count(like_event_id) FROM attributed_events").rows
        by_op, by_name, gone = (
            trace.predict(change).predicted_ns
            for change in ("op=aten::mm x0.1", "name=gemm_* x0.1", "op=aten::add remove")
        )
        left = trace.predict("op=aten::add remove", "name=elem_* remove").predicted_ns
    assert queued == [(len(names),)]
    assert by_op == by_name
    assert gone == left
