"""Analyses idle_causes and idle_gaps of real traces; small ones are in tests/cases."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from every_trace import Answered, on_every_trace
from traces_by_hand import kernel, span, work

import tracekit

Opened = Callable[[Path], tracekit.Trace]


def test_the_screen_shows_causes_with_their_place(
    cli: Callable[..., Any], tiny_trace: Callable[..., Path]
) -> None:
    events = [
        kernel("k0", 100, 110),
        *(span("cuda_runtime", "cudaMalloc", 112, 142), *work(143, 150, 160, 1)),
        *(span("user_annotation", "tk/phase/data", 161, 180), *work(185, 190, 200, 2)),
        *(span("cuda_runtime", "cudaStreamSynchronize", 190, 212), *work(215, 220, 230, 3)),
        span("user_annotation", "tk/module/forward/layers.0.mlp#MLP", 231, 279),
        *(span("cpu_op", "aten::sort", 231, 270), *work(272, 280, 290, 4)),
        *(*work(281, 293, 300, 5), *work(282, 340, 400, 6, "nccl"), kernel("k8", 408, 410, 99)),
    ]
    path = tiny_trace(events)
    screen = cli("breakdown", path).stdout
    section = screen[screen.index("Idle causes") :].split("\n\n")[0].splitlines()
    assert "share of the window" in section[0]
    assert section[1].split()[0] == "host_bound"
    assert section[1].endswith("16.1 %  0.050 ms  1 ×  aten::sort in layers.0.mlp")
    assert section[-1] == "  … 2 more causes (--full)"
    full = cli("breakdown", path, "--full").stdout
    assert "launch_latency" in full[full.index("Idle causes") :]
    found = json.loads(cli("breakdown", path, "--format", "json").stdout)
    assert found["idle_causes"][0]["cause"] == "host_bound"


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
