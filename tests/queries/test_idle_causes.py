"""Analyses idle_causes and idle_gaps: a step worked out on paper, and the public traces."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import AskedByRank, Cases
from every_trace import Answered, on_every_trace
from traces_by_hand import call, kernel, span

import tracekit

Opened = Callable[[Path], tracekit.Trace]


# Every cause once; the device works from 100 to 370 and is idle for 169 of these 270 µs.
STEP = [
    span("python_function", "train.py(10): main", 1, 400),
    call(90, 95, 10),
    kernel("k0", 100, 110, 10),
    # 110 to 130: a wait runs when the device falls idle.
    span("cuda_runtime", "cudaStreamSynchronize", 96, 112),
    call(120, 125, 11),
    kernel("k1", 130, 140, 11),
    # 140 to 170: the data loader.
    span("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 141, 160),
    call(161, 165, 12),
    kernel("k2", 170, 180, 12),
    # 180 to 220: memory.
    span("cuda_runtime", "cudaMalloc", 182, 212),
    call(213, 216, 13),
    kernel("k3", 220, 230, 13),
    # 230 to 280: a sort on the CPU, and then the launch.
    span("python_function", "data.py(7): sort_rows", 231, 271),
    span("python_function", "torch/_ops.py(5): __call__", 232, 270.5),
    span("python_function", "<built-in method sort>", 232.5, 270.2),
    span("cpu_op", "aten::sort", 233, 270),
    span("user_annotation", "tk/module/forward/model.layers.0.mlp#MLP", 270.6, 279),
    span("cpu_op", "aten::mul", 271.5, 277),
    call(272, 276, 14),
    kernel("k4", 280, 290, 14),
    # The rest is queued while k4 runs. 290 to 293: nothing in between.
    span("cpu_op", "aten::add", 280.5, 282.5),
    call(281, 282, 15),
    kernel("k5", 293, 300, 15),
    # 300 to 305: on another stream, which was idle.
    call(283, 284, 16),
    kernel("k6", 305, 310, 16, stream=8),
    # 330 to 336: behind communication.
    call(285, 285.5, 17),
    kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 310, 330, 17, stream=20),
    call(286, 287, 18),
    kernel("k7", 336, 340, 18),
    # 345 to 352: inside a graph.
    call(288, 289, 19, "cudaGraphLaunch"),
    kernel("g0", 340, 345, 19),
    kernel("g1", 352, 356, 19),
    # 356 to 364: no launch in the file.
    kernel("k8", 364, 370, 99),
]


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("step") / "trace.json"
    whole = {"distributedInfo": {"rank": 3, "world_size": 8}, "traceEvents": STEP}
    path.write_text(json.dumps(whole), "utf-8")
    return path


@pytest.fixture(scope="module")
def opened_step(step: Path) -> Iterator[tracekit.Trace]:
    with tracekit.open(step, cache=False) as trace:
        yield trace


CASES = Cases()
asked = CASES.fixture()


def test_every_cause_once(opened_step: tracekit.Trace) -> None:
    rows = opened_step.query("idle_causes").rows
    timeline = opened_step.query("timeline").to_dicts()[0]
    module = "model.layers.0.mlp"
    main, sort_rows = "train.py(10): main", "data.py(7): sort_rows"
    assert [(rank, device, *rest) for rank, device, *rest in rows] == [
        (3, "0", "host_bound", 1, 50_000, 100 * 50 / 270, "aten::sort", module, sort_rows),
        (3, "0", "allocator", 1, 40_000, 100 * 40 / 270, None, None, main),
        (3, "0", "data_loading", 1, 30_000, 100 * 30 / 270, None, None, main),
        (3, "0", "host_sync", 1, 20_000, 100 * 20 / 270, None, None, main),
        (3, "0", "unknown", 1, 8_000, 100 * 8 / 270, None, None, None),
        (3, "0", "graph_gap", 1, 7_000, 100 * 7 / 270, None, None, None),
        (3, "0", "comm_wait", 1, 6_000, 100 * 6 / 270, None, None, None),
        (3, "0", "dependency", 1, 5_000, 100 * 5 / 270, None, None, None),
        (3, "0", "launch_latency", 1, 3_000, 100 * 3 / 270, "aten::add", None, None),
    ]
    assert timeline["window_ns"] == 270_000
    assert timeline["idle_ns"] == sum(row[4] for row in rows) == 169_000


def test_the_longest_gap_with_everything_about_it(opened_step: tracekit.Trace) -> None:
    (gap,) = opened_step.query("idle_gaps", limit=1).to_dicts()
    assert gap == {
        "rank": 3,
        "device": "0",
        "start_ns": 229_000,  # since the first event, at 1 µs
        "idle_ns": 50_000,
        "cause": "host_bound",
        "host_ns": 46_000,
        "previous_kernel": "k3",
        "next_kernel": "k4",
        "op": "aten::sort",
        "python_line": "data.py(7): sort_rows",
        "next_op": "aten::mul",
        "module": "model.layers.0.mlp",
        "launch": "cudaLaunchKernel",
        "launch_ns": 4_000,
        "delay_ns": 4_000,
    }


def test_gaps_can_be_chosen(opened_step: tracekit.Trace) -> None:
    everything = opened_step.query("idle_gaps", limit=0)
    long = opened_step.query("idle_gaps", min_gap_ns=20_000)
    waits = opened_step.query("idle_gaps", cause="host_sync")
    none = opened_step.query("idle_gaps", cause="host_sync", min_gap_ns=20_001)
    assert everything.column("idle_ns") == sorted(everything.column("idle_ns"), reverse=True)
    assert len(everything) == 9
    assert long.column("idle_ns") == [50_000, 40_000, 30_000, 20_000]
    assert waits.column("next_kernel") == ["k1"]
    # The middle of 110 to 125 is in no function but main.
    assert waits.column("python_line") == ["train.py(10): main"]
    assert len(none) == 0


NO_GAP = CASES.add([call(1, 2, 1), kernel("a", 5, 10, 1), kernel("b", 10, 20, 1)])


def test_no_gap_no_row(asked: AskedByRank) -> None:
    assert asked.rows(NO_GAP, "idle_causes") == []
    assert asked.rows(NO_GAP, "idle_gaps") == []
    health = {row["metric"]: row for row in asked.rows(NO_GAP, "health")}
    assert health["idle_explained"]["value"] is None
    assert health["idle_explained"]["severity"] == "ok"


# Two kernels, launched in time; one starts 0.1 ms late, the other one 0.2 ms.
LATE = [
    *(call(1, 2, 1), call(3, 4, 2), call(5, 6, 3)),
    *(kernel("a", 10, 20, 1), kernel("b", 120, 130, 2), kernel("c", 330, 340, 3)),
]
MOSTLY_LATE = CASES.add(LATE)
HARDLY_LATE = CASES.add([*LATE, call(7, 8, 4), kernel("d", 340, 40_000, 4)])


def test_health_says_what_the_file_cannot_explain(
    opened_step: tracekit.Trace, asked: AskedByRank
) -> None:
    health = {row["metric"]: row for row in opened_step.health().to_dicts()}
    assert health["idle_explained"]["value"] == pytest.approx(100 * (169 - 8) / 169)
    assert health["idle_explained"]["severity"] == "ok"
    assert health["unexplained_late_starts"]["value"] == 0

    health = {row["metric"]: row for row in asked.rows(MOSTLY_LATE, "health")}
    assert health["unexplained_late_starts"]["value"] == 1
    assert health["unexplained_late_starts"]["severity"] == "warn"
    assert "0.2 ms" in health["unexplained_late_starts"]["meaning"]
    assert health["idle_explained"]["value"] == pytest.approx(100 / 3)

    health = {row["metric"]: row for row in asked.rows(HARDLY_LATE, "health")}
    assert health["unexplained_late_starts"]["severity"] == "note"


def test_the_screen_shows_causes_with_their_place(step: Path, cli: Callable[..., Any]) -> None:
    screen = cli("breakdown", step).stdout
    section = screen[screen.index("Idle causes") :].split("\n\n")[0].splitlines()
    assert "share of the window" in section[0]
    assert section[1].split()[0] == "host_bound"
    assert section[1].endswith("18.5 %  0.050 ms  1 ×  aten::sort in model.layers.0.mlp")
    assert section[-1] == "  … 4 more causes (--full)"
    full = cli("breakdown", step, "--full").stdout
    assert "launch_latency" in full[full.index("Idle causes") :]
    assert json.loads(cli("breakdown", step, "--format", "json").stdout)["idle_causes"][0][
        "cause"
    ] == ("host_bound")


STARTS_LATE = (
    *("hta_a100_cudagraph", "hta_sampled_rank0_noflows", "hta_sampled_rank1_noflows"),
    "tl_mi300_resnet_ddp_recompute",
)


@on_every_trace
def test_traces_add_up(answered: Answered, path: Path) -> None:
    ask = answered(path)
    idle_ns = {
        (row["rank"], row["device"]): row["idle_ns"]
        for row in ask("timeline").to_dicts()
        if row["idle_ns"]
    }
    causes = ask("idle_causes").to_dicts()
    gaps = ask("idle_gaps", limit=0).to_dicts()
    sums: Counter[tuple[int | None, str]] = Counter()
    for row in causes:
        sums[row["rank"], row["device"]] += row["idle_ns"]
    assert sums == idle_ns
    # All of these have events of the CPU. In some, work starts late without a reason, or nothing is
    # recorded for long: health says so.
    late, explained = (
        {
            row["rank"]: row["severity"]
            for row in ask("health").to_dicts()
            if row["metric"] == metric
        }
        for metric in ("unexplained_late_starts", "idle_explained")
    )
    for rank in late:
        gap_ns = sum(row["idle_ns"] for row in gaps if row["rank"] == rank)
        assert gap_ns == sum(ns for place, ns in idle_ns.items() if place[0] == rank)
        unknown = [row for row in causes if (row["rank"], row["cause"]) == (rank, "unknown")]
        is_known = sum(row["idle_ns"] for row in unknown) <= 0.1 * gap_ns
        assert is_known == (explained[rank] == "ok")
    assert {row["rank"] for row in gaps} <= late.keys()
    assert ("warn" in late.values()) == (path.name.split(".")[0] in STARTS_LATE)


# Three gaps of 40, 40 and 20 µs: a worker waits for its queue, between ops; then an op is at work.
QUEUE = "queue.py(9): wait"
WAITED = [
    span("python_function", "serve.py(3): loop", 0, 300),
    kernel("k0", 0, 10, 1),
    span("python_function", QUEUE, 11, 40),
    *(span("cpu_op", "aten::slice", 44, 50), call(45, 49, 2), kernel("k1", 50, 60, 2)),
    span("python_function", QUEUE, 61, 90),
    span("python_function", "torch/utils/_device.py(99): __torch_function__", 62, 89),
    *(span("cpu_op", "aten::slice", 94, 100), call(95, 99, 3), kernel("k2", 100, 110, 3)),
    *(span("cpu_op", "aten::sort", 110, 129), call(128, 129, 4), kernel("k3", 130, 140, 4)),
]
WITH_STACKS = CASES.add(WAITED)
WITHOUT_STACKS = CASES.add([one for one in WAITED if one["cat"] != "python_function"])
# The wait is a fifth of the time, and 80 µs are no function's: none is named.
MOSTLY_UNKNOWN = CASES.add(
    [one for one in WAITED if one["name"] not in (QUEUE, "serve.py(3): loop")]
    + [span("python_function", QUEUE, 111, 127)]
)


def test_what_launches_next_is_not_the_cause_where_a_python_function_is(
    asked: AskedByRank,
) -> None:
    def where(rank: int) -> list[tuple[Any, ...]]:
        keys = ("cause", "idle_ns", "top_op", "top_python")
        return [tuple(row[key] for key in keys) for row in asked.rows(rank, "idle_causes")]

    assert where(WITH_STACKS) == [("host_bound", 100_000, None, QUEUE)]
    assert where(WITHOUT_STACKS) == [("host_bound", 100_000, "aten::slice", None)]
    assert where(MOSTLY_UNKNOWN) == [("host_bound", 100_000, "aten::slice", None)]


@pytest.mark.parametrize(
    ("name", "cause", "at_least"),
    [
        ("hta_alexnet_cudasync", "allocator", 0.93),
        ("hta_ddp_nccl_metadata", "host_bound", 0.96),
        ("hta_resnet_v100_ns", "launch_latency", 0.71),
        ("hta_a100_cudagraph", "unknown", 0.62),
        ("tl_b200_vllm_eager", "host_bound", 0.98),
        ("tl_h100_owlv2_large", "data_loading", 0.96),
        ("tl_mi300_sglang_decode_graph", "dependency", 0.99),
        ("cpu_llama_lora", "host_bound", 0.8),
    ],
)
def test_what_dominates_public_traces(
    public_traces: Path, opened: Opened, name: str, cause: str, at_least: float
) -> None:
    trace = opened(public_traces / f"{name}.json.gz")
    first, *rest = trace.query("idle_causes").to_dicts()
    total_ns = first["idle_ns"] + sum(row["idle_ns"] for row in rest)
    assert first["cause"] == cause
    assert first["idle_ns"] >= at_least * total_ns


def test_the_line_that_loads_the_data(public_traces: Path, opened: Opened) -> None:
    gaps = (
        opened(public_traces / "tl_h100_owlv2_large.json.gz")
        .query("idle_gaps", cause="data_loading")
        .to_dicts()
    )
    assert len(gaps) == 4
    assert {gap["python_line"] for gap in gaps} == {"scipy/ndimage/_interpolation.py(739): zoom"}
    assert {gap["next_kernel"] for gap in gaps} == {"Memcpy HtoD (Pageable -> Device)"}


SERVED = Path(__file__).parents[2] / "sample_traces" / "serve_vllm"


def test_the_wait_of_a_serving_worker_is_named(opened: Opened) -> None:
    trace = opened(SERVED)
    (row,) = trace.query("idle_causes").to_dicts()
    idle_ns: Counter[str | None] = Counter()
    for gap in trace.query("idle_gaps", limit=0).to_dicts():
        idle_ns[gap["python_line"]] += gap["idle_ns"]
    line, line_ns = idle_ns.most_common(1)[0]
    assert line == "vllm/distributed/utils.py(44): sched_yield"
    assert (row["top_op"], row["top_python"]) == (None, line)
    assert line_ns * 4 >= row["idle_ns"] == idle_ns.total()


def test_the_screen_shows_the_function_where_no_op_is_the_cause(cli: Callable[..., Any]) -> None:
    screen = cli("breakdown", SERVED).stdout
    section = screen[screen.index("Idle causes") :].splitlines()
    assert section[1].endswith("  utils.py(44): sched_yield")


INNERMOST = """
    SELECT gap_id, arg_max(name, (ts_ns, -dur_ns))
    FROM idle_gap INNER JOIN event USING (trace_id, pid, tid)
    WHERE category = 'python_function' AND ts_ns <= busy_at_ns AND ts_ns + dur_ns > busy_at_ns
        AND NOT regexp_matches(name, '^(<built-in|nn.Module: |torch/)|/torch/')
    GROUP BY gap_id ORDER BY gap_id
"""


def test_functions_are_those_that_a_plain_comparison_of_times_finds(opened: Opened) -> None:
    trace = opened(SERVED)
    found = trace.sql(
        "SELECT DISTINCT gap_id, name FROM idle_gap AS g INNER JOIN event AS e "
        "ON g.trace_id = e.trace_id AND g.python_event_id = e.event_id ORDER BY gap_id"
    )
    assert found.rows == trace.sql(INNERMOST).rows
    assert len(found) > 1_000


def test_first_use_of_kernels_is_found_in_the_loader(public_traces: Path, opened: Opened) -> None:
    gaps = (
        opened(public_traces / "tl_b200_vllm_eager.json.gz").query("idle_gaps", limit=10).to_dicts()
    )
    lines = [gap["python_line"] or "" for gap in gaps]
    assert any(line.startswith("flashinfer/jit/cubin_loader.py") for line in lines)
