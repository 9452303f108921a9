"""Modules, phases, links and rows: what belongs where, on traces that one can check on paper."""

from __future__ import annotations

from typing import Any

from cases_as_ranks import AskedByRank, Cases
from traces_by_hand import Event, kernel, span

MAIN, ENGINE = 1, 2


# Times are microseconds, as in a trace; the process is 1, the device 0.


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


LAUNCHED = [launch(10, 1), kernel("k", 20, 30, 1)]
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

CASES = Cases()
asked = CASES.fixture()
STEP_OF_TRAINING = CASES.add(TRAINING)


PLACES = """(
    SELECT d.trace_id, d.event_id, d.ts_ns, d.name, c.phase, coalesce(m.path, c.row_name) AS place
    FROM attribution AS c
    JOIN device_events AS d USING (trace_id, event_id, piece)
    LEFT JOIN module AS m USING (trace_id, module_id)
)"""


def places(asked: AskedByRank, rank: int) -> list[tuple[str, str, str]]:
    """Name, phase and place of every device event, in order."""
    return asked.table(rank, PLACES, "name, phase, place", "ts_ns, event_id")


def test_training_step_on_paper(asked: AskedByRank) -> None:
    assert places(asked, STEP_OF_TRAINING) == [
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


def test_modules_of_the_training_step(asked: AskedByRank) -> None:
    columns = ("phase", "module_path", "depth", "kernel_count", "self_wall_ns", "total_wall_ns")
    found = asked.rows(STEP_OF_TRAINING, "modules")
    rows = [tuple(row[column] for column in columns) for row in found]
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


def test_a_depth_folds_what_is_deeper_and_loses_nothing(asked: AskedByRank) -> None:
    folded = asked.rows(STEP_OF_TRAINING, "modules", depth=0)
    assert {row["depth"] for row in folded} == {0}
    assert [row["self_wall_ns"] for row in folded if row["module_path"] == "Net_0"] == [
        80_000,
        40_000,
        80_000,
    ]
    assert sum(row["self_wall_ns"] for row in folded) == 360_000


def test_rollup_joins_the_layers(asked: AskedByRank) -> None:
    rows = asked.rows(STEP_OF_TRAINING, "modules", rollup=True, phase="forward")
    assert [(row["module_path"], row["total_wall_ns"]) for row in rows] == [
        ("Net", 80_000),
        ("Net/Layer_*", 80_000),
        ("(loss)", 10_000),
    ]


def test_filters(asked: AskedByRank) -> None:
    by_class = asked.rows(STEP_OF_TRAINING, "modules", **{"class": "Layer"})
    assert {row["module_path"] for row in by_class} == {"Net_0/Layer_0", "Net_0/Layer_1"}
    by_layer = asked.rows(STEP_OF_TRAINING, "modules", layer=1)
    assert {row["module_path"] for row in by_layer} == {"Net_0/Layer_1"}


# -- links -----------------------------------------------------------------------------------------


REPLAY = CASES.add(
    [
        module("Model_0", 0, 100),
        launch(10, 5, name="cudaGraphLaunch"),
        *(kernel(f"node_{i}", 20 + 10 * i, 28 + 10 * i, 5) for i in range(3)),
    ]
)


def test_graph_replay_belongs_to_what_encloses_its_launch(asked: AskedByRank) -> None:
    assert places(asked, REPLAY) == [(f"node_{i}", "forward", "Model_0") for i in range(3)]


CORRELATION_ZERO = CASES.add(
    [launch(10, 0), kernel("k", 20, 30, 0), launch(40, 1), kernel("l", 50, 60, 1)]
)


def test_correlation_zero_is_no_link(asked: AskedByRank) -> None:
    links = asked.table(CORRELATION_ZERO, "attribution", "link", "event_id")
    assert links == [("missing_launch",), ("launch",)]


REUSED_CORRELATION = CASES.add(
    [
        module("First_0", 0, 50),
        launch(10, 1),
        kernel("one", 20, 30, 1),
        module("Second_0", 100, 150) | {"pid": 200},
        launch(110, 1) | {"pid": 200},
        kernel("two", 120, 130, 1),
    ]
)


def test_a_reused_correlation_means_the_last_call_before_the_event(asked: AskedByRank) -> None:
    assert places(asked, REUSED_CORRELATION) == [
        ("one", "forward", "First_0"),
        ("two", "forward", "Second_0"),
    ]


LOST_LAUNCHES = CASES.add(
    [
        kernel("queued before", 0, 5, 3),
        launch(10, 10),
        kernel("seen", 20, 30, 10),
        kernel("launch lost", 40, 50, 11),
    ]
)


def test_before_the_window_and_missing(asked: AskedByRank) -> None:
    links = asked.table(LOST_LAUNCHES, "attribution", "link, launch_id IS NULL", "event_id")
    assert links == [("before_window", True), ("launch", False), ("missing_launch", True)]
    health = {row["metric"]: row for row in asked.rows(LOST_LAUNCHES, "health")}
    assert health["launched_before_window"]["value"] == 1
    assert health["launch_missing"]["value"] == 1
    assert health["launch_missing"]["severity"] == "warn"


AMD = CASES.add(
    [
        module("Model_0", 0, 100),
        op("aten::mm", 5, 30),
        launch(10, 7, name="hipExtModuleLaunchKernel"),
        kernel("Cijk_Alik", 20, 30, 7, stream=0),
    ]
)
OLD = CASES.add(
    [
        span("Operator", "Optimizer.step#SGD.step", 0, 100),
        span("Operator", "aten::add_", 5, 30),
        span("Runtime", "cudaLaunchKernel", 10, 12, correlation=7),
        span("Kernel", "add", 20, 30, 7, correlation=7, device=0, stream=7) | {"pid": 0},
        span("Operator", "ProfilerStep#3", 0, 200),
    ]
)


def test_amd_and_old_category_names(asked: AskedByRank) -> None:
    assert places(asked, AMD) == [("Cijk_Alik", "forward", "Model_0")]
    assert places(asked, OLD) == [("add", "optimizer", "(optimizer)")]
    assert asked.table(OLD, "attribution", "op_name, step") == [("aten::add_", 3)]


OTHER_TRACE = CASES.add([module("Other_0", 0, 50), launch(10, 2), kernel("k", 20, 30, 2)])


def test_several_traces_in_a_store_keep_apart(asked: AskedByRank) -> None:
    one, other = (
        {row["module_path"] for row in asked.rows(rank, "modules")}
        for rank in (STEP_OF_TRAINING, OTHER_TRACE)
    )
    assert other == {"Other_0"}
    assert "Net_0/Layer_1" in one


# -- names -----------------------------------------------------------------------------------------


OWN_RANGES = CASES.add(
    [
        module("Model_0", 0, 100),
        annotation("tk/module/forward/model#LlamaModel", 1, 99),
        module("LlamaMLP_0", 5, 95),
        annotation("tk/module/forward/model.layers.0.mlp#LlamaMLP", 6, 94),
        *LAUNCHED,
    ]
)


def test_own_ranges_are_trusted_more_than_module_calls(asked: AskedByRank) -> None:
    assert places(asked, OWN_RANGES) == [("k", "forward", "model.layers.0.mlp")]
    columns = "class, layer, source, depth, rollup_path"
    row = asked.table(OWN_RANGES, "(FROM module WHERE depth = 1)", columns)
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


IN_PHASES = {name: CASES.add([annotation(name, 0, 100), *LAUNCHED]) for name in PHASES}


def test_phases_of_ranges(asked: AskedByRank) -> None:
    found = {name: asked.table(rank, "attribution", "phase") for name, rank in IN_PHASES.items()}
    assert found == {name: [(phase,)] for name, phase in PHASES.items()}


HOOKS = {
    "PreBackwardFunctionForModule": "(ZeRO hooks)",
    "FSDP::pre_forward": "(FSDP hooks)",
    "torch.distributed.ddp.reducer::copy_bucket_to_grad": "(gradient accumulation)",
}


IN_HOOKS = {
    name: CASES.add([op(name, 5, 50), module("Net_0", 0, 100), *LAUNCHED]) for name in HOOKS
}


def test_hooks_are_rows_also_inside_of_modules(asked: AskedByRank) -> None:
    found = {name: asked.table(rank, "attribution", "row_name") for name, rank in IN_HOOKS.items()}
    assert found == {name: [(row,)] for name, row in HOOKS.items()}


USER_RANGE = CASES.add([annotation("my part", 0, 100), *LAUNCHED])


def test_user_ranges_serve_where_there_are_no_modules(asked: AskedByRank) -> None:
    assert places(asked, USER_RANGE)[0][2] == "my part"


WITHOUT_CONTEXT = CASES.add(LAUNCHED)


def test_work_without_any_context_is_never_dropped(asked: AskedByRank) -> None:
    rows = asked.rows(WITHOUT_CONTEXT, "modules")
    assert [(row["module_path"], row["self_wall_ns"]) for row in rows] == [
        ("(unattributed)", 10_000)
    ]


# -- before the window -----------------------------------------------------------------------------


def repeated() -> list[Event]:
    """Three steps of two kernels; the first one was queued before the window."""
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
    return events


REPEATED = CASES.add(repeated())


def test_repetition_places_what_was_queued_before_the_window(asked: AskedByRank) -> None:
    assert places(asked, REPEATED)[:2] == [("a", "forward", "A_0"), ("b", "forward", "B_0")]
    links = asked.table(REPEATED, "attribution", "link, is_inferred")
    assert links == [*[("before_window", True)] * 2, *[("launch", False)] * 4]
