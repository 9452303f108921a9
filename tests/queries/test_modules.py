"""Modules, phases, links and rows: what belongs where, on traces that one can check on paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import opened_as_ranks
from traces_by_hand import Event, kernel

import tracekit

Write = Callable[..., Path]

MAIN, ENGINE = 1, 2


# Times are microseconds, as in a trace; the process is 100, the device 0.


def span(category: str, name: str, start: float, end: float, tid: int = MAIN, **args: Any) -> Event:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 100,
        "tid": tid,
        "ts": start,
        "dur": end - start,
        "args": args,
    }


def module(name: str, start: float, end: float, tid: int = MAIN) -> Event:
    return span("python_function", f"nn.Module: {name}", start, end, tid)


def annotation(name: str, start: float, end: float, tid: int = MAIN) -> Event:
    return span("user_annotation", name, start, end, tid)


def op(name: str, start: float, end: float, tid: int = MAIN, **args: Any) -> Event:
    return span("cpu_op", name, start, end, tid, **args)


def forward_op(name: str, start: float, end: float, sequence: int, tid: int = MAIN) -> Event:
    return op(name, start, end, tid, **{"Sequence number": sequence, "Fwd thread id": 0})


def node(name: str, start: float, end: float, sequence: int, thread: int) -> Event:
    args = {"Sequence number": sequence, "Fwd thread id": thread}
    return op(f"autograd::engine::evaluate_function: {name}", start, end, ENGINE, **args)


def launch(
    start: float, correlation: int, tid: int = MAIN, name: str = "cudaLaunchKernel"
) -> Event:
    return span("cuda_runtime", name, start, start + 2, tid, correlation=correlation)


ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

# One step of training: two layers, the second one checkpointed. Work on the device, in µs:
#   stream 7:  20–30 batch, 120–160 layer 0, 160–200 layer 1, 210–220 loss, 230–240 loss backward,
#              260–300 layer 1 again, 305–345 its backward, 355–395 backward of layer 0,
#              400–410 accumulation, 620–640 optimizer, 680–685 zero_grad
#   stream 20: 405–505 all-reduce
TRAINING = [
    annotation("ProfilerStep#1", 0, 1000),
    launch(10, 1, name="cudaMemcpyAsync"),
    kernel("Memcpy HtoD (Pageable -> Device)", 20, 30, 1),
    # Forward.
    module("Net_0", 100, 200),
    module("Layer_0", 105, 140),
    forward_op("aten::mm", 110, 120, 1),
    launch(112, 2),
    kernel("gemm_0", 120, 160, 2),
    module("Layer_1", 145, 190),
    forward_op("CheckpointFunction", 148, 185, 3),
    op("aten::mm", 150, 160),
    launch(152, 3),
    kernel("gemm_1", 160, 200, 3),
    forward_op("aten::mse_loss", 205, 215, 4),
    launch(207, 4),
    kernel("loss", 210, 220, 4),
    # Backward, on the engine's thread.
    node("MseLossBackward0", 220, 240, 4, 1),
    op("MseLossBackward0", 222, 238, ENGINE, **{"Sequence number": 4, "Fwd thread id": 1}),
    op("aten::mse_loss_backward", 224, 236, ENGINE),
    launch(226, 5, ENGINE),
    kernel("loss_backward", 230, 240, 5),
    node("CheckpointFunctionBackward", 245, 340, 3, 1),
    module("Layer_1", 250, 290, ENGINE),
    # Numbers are counted per thread: this one is 1 again.
    forward_op("aten::mm", 255, 265, 1, ENGINE),
    launch(257, 6, ENGINE),
    kernel("gemm_1", 260, 300, 6),
    node("MmBackward0", 295, 335, 1, 2),
    op("aten::mm", 300, 310, ENGINE),
    launch(302, 7, ENGINE),
    kernel("gemm_1_backward", 305, 345, 7),
    node("MmBackward0", 345, 385, 1, 1),
    op("aten::mm", 350, 360, ENGINE),
    launch(352, 8, ENGINE),
    kernel("gemm_0_backward", 355, 395, 8),
    op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 390, 412, ENGINE),
    op("torch::autograd::AccumulateGrad", 392, 410, ENGINE),
    op("aten::add_", 394, 400, ENGINE),
    launch(396, 9, ENGINE),
    kernel("add", 400, 410, 9),
    op("c10d::allreduce_", 401, 409, ENGINE),
    launch(403, 10, ENGINE),
    kernel(ALL_REDUCE, 405, 505, 10, stream=20),
    # Optimizer.
    annotation("Optimizer.step#SGD.step", 600, 660),
    op("aten::add_", 610, 620),
    launch(612, 11),
    kernel("add", 620, 640, 11),
    annotation("Optimizer.zero_grad#SGD.zero_grad", 670, 690),
    op("aten::zero_", 672, 680),
    launch(675, 12, name="cudaMemsetAsync"),
    kernel("Memset (Device)", 680, 685, 12),
]

PLACES_SQL = """
SELECT d.name, c.phase, coalesce(m.path, c.row_name)
FROM attribution AS c
JOIN device_events AS d USING (trace_id, event_id, piece)
LEFT JOIN module AS m USING (trace_id, module_id)
ORDER BY d.ts_ns, d.event_id
"""


Opened = Callable[[Path], tracekit.Trace]
OpenEvents = Callable[[list[Event]], tracekit.Trace]


@pytest.fixture
def open_events(tiny_trace: Write) -> OpenEvents:
    return lambda events: tracekit.open(tiny_trace(events), cache=False)


def places(trace: tracekit.Trace) -> list[tuple[str, str, str]]:
    """Name, phase and place of every device event, in order."""
    return trace.sql(PLACES_SQL).rows


def only(trace: tracekit.Trace, columns: str) -> tuple[Any, ...]:
    """Columns of attribution of the only device event."""
    (row,) = trace.sql(f"SELECT {columns} FROM attribution").rows
    return row


def test_training_step_on_paper(open_events: OpenEvents) -> None:
    assert places(open_events(TRAINING)) == [
        ("Memcpy HtoD (Pageable -> Device)", "data", "(data loading)"),
        ("gemm_0", "forward", "Net_0/Layer_0"),
        ("gemm_1", "forward", "Net_0/Layer_1"),
        ("loss", "forward", "(loss)"),
        ("loss_backward", "backward", "(loss)"),
        ("gemm_1", "recompute", "Net_0/Layer_1"),
        ("gemm_1_backward", "backward", "Net_0/Layer_1"),
        ("gemm_0_backward", "backward", "Net_0/Layer_0"),
        ("add", "backward", "(gradient accumulation)"),
        (ALL_REDUCE, "backward", "(communication)"),
        ("add", "optimizer", "(optimizer)"),
        ("Memset (Device)", "optimizer", "(zero_grad)"),
    ]


def test_modules_of_the_training_step(open_events: OpenEvents) -> None:
    result = open_events(TRAINING).query("modules")
    columns = ("phase", "module_path", "depth", "kernel_count", "self_wall_ns", "total_wall_ns")
    rows = [tuple(row[column] for column in columns) for row in result.to_dicts()]
    assert rows == [
        ("data", "(data loading)", 0, 1, 10_000, 10_000),
        ("forward", "Net_0", 0, 0, 0, 80_000),
        ("forward", "Net_0/Layer_0", 1, 1, 40_000, 40_000),
        ("forward", "Net_0/Layer_1", 1, 1, 40_000, 40_000),
        ("forward", "(loss)", 0, 1, 10_000, 10_000),
        ("recompute", "Net_0", 0, 0, 0, 40_000),
        ("recompute", "Net_0/Layer_1", 1, 1, 40_000, 40_000),
        ("backward", "Net_0", 0, 0, 0, 80_000),
        ("backward", "Net_0/Layer_0", 1, 1, 40_000, 40_000),
        ("backward", "Net_0/Layer_1", 1, 1, 40_000, 40_000),
        ("backward", "(communication)", 0, 1, 95_000, 95_000),
        ("backward", "(gradient accumulation)", 0, 1, 10_000, 10_000),
        ("backward", "(loss)", 0, 1, 10_000, 10_000),
        ("optimizer", "(optimizer)", 0, 1, 20_000, 20_000),
        ("optimizer", "(zero_grad)", 0, 1, 5_000, 5_000),
    ]


def test_a_depth_folds_what_is_deeper_and_loses_nothing(open_events: OpenEvents) -> None:
    trace = open_events(TRAINING)
    folded = trace.query("modules", depth=0).to_dicts()
    assert {row["depth"] for row in folded} == {0}
    assert [row["self_wall_ns"] for row in folded if row["module_path"] == "Net_0"] == [
        80_000,
        40_000,
        80_000,
    ]
    assert sum(row["self_wall_ns"] for row in folded) == 360_000


def test_rollup_joins_the_layers(open_events: OpenEvents) -> None:
    rows = open_events(TRAINING).query("modules", rollup=True, phase="forward").to_dicts()
    assert [(row["module_path"], row["total_wall_ns"]) for row in rows] == [
        ("Net", 80_000),
        ("Net/Layer_*", 80_000),
        ("(loss)", 10_000),
    ]


def test_filters(open_events: OpenEvents) -> None:
    trace = open_events(TRAINING)
    by_class = trace.query("modules", **{"class": "Layer"}).column("module_path")
    assert set(by_class) == {"Net_0/Layer_0", "Net_0/Layer_1"}
    by_layer = trace.query("modules", layer=1).column("module_path")
    assert set(by_layer) == {"Net_0/Layer_1"}


# -- links -----------------------------------------------------------------------------------------


def test_graph_replay_belongs_to_what_encloses_its_launch(open_events: OpenEvents) -> None:
    events = [
        module("Model_0", 0, 100),
        launch(10, 5, name="cudaGraphLaunch"),
        *(kernel(f"node_{i}", 20 + 10 * i, 28 + 10 * i, 5) for i in range(3)),
    ]
    assert places(open_events(events)) == [(f"node_{i}", "forward", "Model_0") for i in range(3)]


def test_correlation_zero_is_no_link(open_events: OpenEvents) -> None:
    events = [launch(10, 0), kernel("k", 20, 30, 0), launch(40, 1), kernel("l", 50, 60, 1)]
    links = open_events(events).sql("SELECT link FROM attribution ORDER BY event_id").rows
    assert links == [("missing_launch",), ("launch",)]


def test_a_reused_correlation_means_the_last_call_before_the_event(open_events: OpenEvents) -> None:
    first = module("First_0", 0, 50)
    second = module("Second_0", 100, 150) | {"pid": 200}
    events = [
        first,
        launch(10, 1),
        kernel("one", 20, 30, 1),
        second,
        launch(110, 1) | {"pid": 200},
        kernel("two", 120, 130, 1),
    ]
    assert places(open_events(events)) == [
        ("one", "forward", "First_0"),
        ("two", "forward", "Second_0"),
    ]


def test_before_the_window_and_missing(open_events: OpenEvents) -> None:
    events = [
        kernel("queued before", 0, 5, 3),
        launch(10, 10),
        kernel("seen", 20, 30, 10),
        kernel("launch lost", 40, 50, 11),
    ]
    trace = open_events(events)
    links = trace.sql("SELECT link, launch_id IS NULL FROM attribution ORDER BY event_id").rows
    assert links == [("before_window", True), ("launch", False), ("missing_launch", True)]
    health = {row["metric"]: row for row in trace.health().to_dicts()}
    assert health["launched_before_window"]["value"] == 1
    assert health["launch_missing"]["value"] == 1
    assert health["launch_missing"]["severity"] == "warn"


def test_amd_and_old_category_names(open_events: OpenEvents) -> None:
    amd = [
        module("Model_0", 0, 100),
        op("aten::mm", 5, 30),
        launch(10, 7, name="hipExtModuleLaunchKernel"),
        kernel("Cijk_Alik", 20, 30, 7, stream=0),
    ]
    assert places(open_events(amd)) == [("Cijk_Alik", "forward", "Model_0")]
    old = [
        span("Operator", "Optimizer.step#SGD.step", 0, 100),
        span("Operator", "aten::add_", 5, 30),
        span("Runtime", "cudaLaunchKernel", 10, 12, correlation=7),
        span("Kernel", "add", 20, 30, 7, correlation=7, device=0, stream=7) | {"pid": 0},
        span("Operator", "ProfilerStep#3", 0, 200),
    ]
    trace = open_events(old)
    assert places(trace) == [("add", "optimizer", "(optimizer)")]
    assert only(trace, "op_name, step") == ("aten::add_", 3)


def test_several_traces_in_a_store_keep_apart(tiny_trace: Write) -> None:
    paths = [
        tiny_trace(TRAINING, "rank0.json"),
        tiny_trace([module("Other_0", 0, 50), launch(10, 2), kernel("k", 20, 30, 2)], "rank1.json"),
    ]
    rows = tracekit.open(*paths, cache=False).query("modules").to_dicts()
    by_rank = {rank: {r["module_path"] for r in rows if r["rank"] == rank} for rank in (0, 1)}
    assert by_rank[1] == {"Other_0"}
    assert "Net_0/Layer_1" in by_rank[0]


# -- names -----------------------------------------------------------------------------------------


def test_own_ranges_are_trusted_more_than_module_calls(open_events: OpenEvents) -> None:
    path = "model.layers.0.mlp"
    events = [
        module("Model_0", 0, 100),
        annotation("tk/module/forward/model#LlamaModel", 1, 99),
        module("LlamaMLP_0", 5, 95),
        annotation(f"tk/module/forward/{path}#LlamaMLP", 6, 94),
        launch(10, 1),
        kernel("k", 20, 30, 1),
    ]
    trace = open_events(events)
    assert places(trace) == [("k", "forward", path)]
    row = trace.sql(
        "SELECT class, layer, source, depth, rollup_path FROM module WHERE depth = 1"
    ).rows
    assert row == [("LlamaMLP", 0, "tk", 1, "model.layers.*.mlp")]


PHASES = {
    "execute_context_2(512)_generation_0(0)": "prefill",
    "execute_context_0(0)_generation_16(16)": "decode",
    "execute_context_1(64)_generation_16(16)": "mixed",
    "step[EXTEND bs=4 toks=512]": "prefill",
    "step[DECODE bs=8]": "decode",
    "engine_step prefill_reqs=2 prefill_tokens=64 decode_reqs=0": "prefill",
    "engine_step prefill_reqs=0 prefill_tokens=0 decode_reqs=3": "decode",
    "engine_step prefill_reqs=1 prefill_tokens=9 decode_reqs=3": "mixed",
    "tk/phase/decode": "decode",
    "## forward ##": "forward",
    "DistributedDataParallel.forward": "forward",
    "Optimizer.step#AdamW.step": "optimizer",
    "attn(F)": "forward",
    "mlp(W)": "backward",
}


def test_phases_of_ranges(tmp_path: Path) -> None:
    cases = [[annotation(name, 0, 100), launch(10, 1), kernel("k", 20, 30, 1)] for name in PHASES]
    with opened_as_ranks(tmp_path, cases) as trace:
        found = trace.sql("SELECT phase FROM attribution ORDER BY trace_id").column("phase")
    assert dict(zip(PHASES, found, strict=True)) == PHASES


HOOKS = {
    "PreBackwardFunctionForModule": "(ZeRO hooks)",
    "FSDP::pre_forward": "(FSDP hooks)",
    "torch.distributed.ddp.reducer::copy_bucket_to_grad": "(gradient accumulation)",
}


def test_hooks_are_rows_also_inside_of_modules(tmp_path: Path) -> None:
    work = [module("Net_0", 0, 100), launch(10, 1), kernel("k", 20, 30, 1)]
    with opened_as_ranks(tmp_path, [[op(name, 5, 50), *work] for name in HOOKS]) as trace:
        found = trace.sql("SELECT row_name FROM attribution ORDER BY trace_id").column("row_name")
    assert dict(zip(HOOKS, found, strict=True)) == HOOKS


def test_user_ranges_serve_where_there_are_no_modules(open_events: OpenEvents) -> None:
    events = [annotation("my part", 0, 100), launch(10, 1), kernel("k", 20, 30, 1)]
    assert places(open_events(events))[0][2] == "my part"


def test_work_without_any_context_is_never_dropped(open_events: OpenEvents) -> None:
    trace = open_events([launch(10, 1), kernel("k", 20, 30, 1)])
    rows = trace.query("modules").to_dicts()
    assert [(row["module_path"], row["self_wall_ns"]) for row in rows] == [
        ("(unattributed)", 10_000)
    ]


# -- before the window -----------------------------------------------------------------------------


def test_repetition_places_what_was_queued_before_the_window(open_events: OpenEvents) -> None:
    events = []
    for step in range(3):
        start = 1000 * step
        if step:
            events.append(annotation(f"ProfilerStep#{step}", start, start + 900))
        for number, name in enumerate(("a", "b")):
            at, correlation = start + 100 * (number + 1), 10 * step + number + 1
            if step:
                events.append(module(f"{name.upper()}_0", at - 50, at + 20))
                events.append(launch(at, correlation))
            events.append(kernel(name, at + 5, at + 15, correlation))
    trace = open_events(events)
    assert places(trace)[:2] == [("a", "forward", "A_0"), ("b", "forward", "B_0")]
    inferred = trace.sql("SELECT link, is_inferred, count(*) FROM attribution GROUP BY ALL").rows
    assert sorted(inferred) == [("before_window", True, 2), ("launch", False, 4)]
