"""What reduces the rows of other analyses: sums by hand, and on real traces against those rows."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from given_rows import analysis_of, rows_of

import tracekit
from tracekit.analysis.breakdown import TOTALS
from tracekit.analysis.result import Result
from tracekit.errors import UsageError

REPO = Path(__file__).resolve().parents[2]
Opened = Callable[[Path], tracekit.Trace]


def reduced(name: str, *inputs: Result) -> list[dict[str, Any]]:
    return analysis_of(name, *inputs).to_dicts()


def windows(*lengths_ns: int) -> Result:
    return rows_of("timeline", *({"window_ns": length_ns} for length_ns in lengths_ns))


def test_bandwidth_is_all_bytes_over_all_time_not_a_mean_of_rates() -> None:
    """4 MB in 4 ms and 4 MB in 2 ms are 8 MB in 6 ms; the mean of 1 and 2 GB/s is not it."""
    call = {"class": "comm_allreduce", "pg_name": "0", "device": "0", "call_count": 2}
    times = {"comm_ns": 3_000_000, "wall_ns": 1_000_000, "sized_count": 2}
    rows = [
        {"kernel_ns": 4_000_000, "sized_ns": 4_000_000, "bus_bytes_per_s": 1.5e9},
        {"kernel_ns": 2_000_000, "sized_ns": 2_000_000, "bus_bytes_per_s": 3e9},
    ]
    told = rows_of(
        "communication", *(call | times | row | {"message_bytes": 4_000_000} for row in rows)
    )
    (total,) = reduced("communication_totals", told, windows(5_000_000, 5_000_000))
    assert (total["call_count"], total["message_bytes"], total["sized_ns"]) == (
        4,
        8_000_000,
        6_000_000,
    )
    assert total["algorithm_bytes_per_s"] == pytest.approx(8e6 / 6e-3)
    assert total["bus_bytes_per_s"] == pytest.approx(1.5 * 8e6 / 6e-3)
    assert (total["wall_pct"], total["overlapped_pct"]) == (20.0, pytest.approx(200 / 3))


def test_a_bus_bandwidth_needs_the_size_of_every_group() -> None:
    call = {"class": "comm_other", "call_count": 1, "kernel_ns": 10, "comm_ns": 10, "wall_ns": 0}
    sized = {"sized_count": 1, "message_bytes": 8, "sized_ns": 10}
    known, unknown = call | sized | {"bus_bytes_per_s": 1.0}, call | sized | {"reason": "b"}
    bare = call | {"sized_count": 0, "reason": "a"}
    (total,) = reduced(
        "communication_totals", rows_of("communication", known, unknown, bare, unknown), windows()
    )
    assert (total["algorithm_bytes_per_s"], total["bus_bytes_per_s"]) == (8e8, None)
    assert total["reasons"] == ["b", "a"]
    assert total["wall_pct"] is None


def test_modules_of_all_phases_and_devices_are_one_tree() -> None:
    rows = [
        {"depth": depth, "rollup_path": path, "parent_path": parent, "kernel_count": 1}
        | {"self_kernel_ns": own, "self_wall_ns": own, "total_wall_ns": total}
        | {"total_kernel_ns": total}
        for _ in range(2)
        for depth, path, parent, own, total in [
            (0, "model", None, 1, 10),
            (1, "model.*", "model", 2, 4),
            (1, "model.*", "model", 3, 5),
            (0, "(optimizer)", None, 7, 7),
        ]
    ]
    found = reduced("module_totals", rows_of("modules", *rows), windows(50, 50))
    assert [(row["module_path"], row["parent_path"], row["total_wall_ns"]) for row in found] == [
        ("model", None, 20),
        ("model.*", "model", 18),
        ("(optimizer)", None, 14),
    ]
    assert [row["wall_pct"] for row in found] == [20.0, 18.0, 14.0]
    assert [row["self_pct"] for row in found] == [2.0, 10.0, 14.0]


def test_steps_are_counted_once_for_every_device() -> None:
    step = {"device": "0", "kernel_count": 1}
    rows = [
        step | {"rank": rank, "step": 1, "span_ns": span_ns, "wall_ns": 10}
        for rank, span_ns in ((0, 10), (None, 20), (None, 60), (1, None))
    ]
    (total,) = reduced("step_totals", rows_of("steps", *rows, step | {"rank": 0, "wall_ns": 10}))
    assert (total["step_count"], total["rank_count"]) == (3, 2)
    assert (total["mean_span_ns"], total["min_span_ns"], total["max_span_ns"]) == (30.0, 10, 60)
    assert (total["outside_ns"], total["outside_pct"]) == (10, 20.0)


def test_the_cause_names_the_place_of_the_device_with_most_of_it() -> None:
    rows = [
        {
            "cause": "host_bound",
            "gap_count": 1,
            "idle_ns": idle_ns,
            "top_op": op,
            "top_python": line,
        }
        for idle_ns, op, line in ((5, "a", "x.py(1): f"), (9, None, "y.py(2): g"), (9, "c", None))
    ]
    (total,) = reduced("idle_cause_totals", rows_of("idle_causes", *rows), windows(100))
    assert (total["gap_count"], total["idle_pct"], total["top_op"]) == (3, 23.0, None)
    assert total["top_python"] == "y.py(2): g"


def test_no_rows_have_no_total() -> None:
    for name, totals in TOTALS.items():
        assert reduced(totals, rows_of(name), windows(5)) == []


def test_together_they_say_what_each_says_alone(opened: Opened) -> None:
    trace = opened(REPO / "sample_traces" / "pretrain_R+Z3")
    found = trace.breakdown()
    for name, totals in TOTALS.items():
        if name in found:
            assert found[totals] == trace.query(totals)


@pytest.mark.parametrize("run", ["pretrain_R+Z3", "serve_vllm"])
def test_totals_are_the_sums_of_the_rows(opened: Opened, run: str) -> None:
    """Every column that both have and that counts or measures is the sum over the rows."""
    trace = opened(REPO / "sample_traces" / run)
    found = trace.breakdown()
    keys = {"kernel_classes": ["class", "kind"], "phases": ["phase"], "idle_causes": ["cause"]}
    for name, key in keys.items():
        totals = found[TOTALS[name]]
        summed = [
            column
            for column in totals.column_names
            if column.endswith(("_ns", "_count")) and column in found[name].column_names
        ]
        assert summed
        sums: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
        for row in found[name].to_dicts():
            sums[tuple(row[column] for column in key)].update({c: row[c] for c in summed})
        assert sums == {
            tuple(row[column] for column in key): Counter({c: row[c] for c in summed})
            for row in totals.to_dicts()
        }
    for name, column in (("kernel_classes", "wall_pct"), ("idle_causes", "idle_pct")):
        assert 0 < sum(found[TOTALS[name]].column(column)) < 100
    assert sum(found["phase_totals"].column("span_pct")) == pytest.approx(100)


def test_a_step_has_the_mean_of_what_steps_launched(opened: Opened, tmp_path: Path) -> None:
    """Steps launch 20 and 40 µs, of which 10 µs in a module; 50 µs were queued before, 7 after."""
    steps = [
        {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur}
        for cat, name, ts, dur in (
            ("user_annotation", "ProfilerStep#1", 100, 100),
            ("user_annotation", "ProfilerStep#2", 200, 100),
            ("python_function", "nn.Module: Linear_0", 110, 30),
        )
    ]
    calls = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
        | {"ts": ts, "dur": 1, "args": {"correlation": correlation}}
        for correlation, ts in ((2, 120), (3, 150), (4, 210), (5, 310))
    ]
    kernels = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur}
        | {"args": {"correlation": correlation, "device": 0, "stream": 7}}
        for correlation, name, ts, dur in (
            (1, "gemm", 60, 50),
            (2, "gemm", 130, 10),
            (3, "reduce_kernel", 160, 10),
            (4, "gemm", 230, 40),
            (5, "gemm", 320, 7),
        )
    ]
    path = tmp_path / "queued.json"
    path.write_text(json.dumps({"traceEvents": [*steps, *calls, *kernels]}))
    trace = opened(path)
    assert trace.query("step_totals").column("step_work_ns") == [30_000]
    for name, label, expected in (
        ("kernel_class_totals", "class", {"gemm": 25_000, "reduction": 5_000}),
        ("module_totals", "module_path", {"Linear": 5_000, "(unattributed)": 25_000}),
        ("phase_totals", "phase", {}),
    ):
        rows = trace.query(name).to_dicts()
        found = {row[label]: row["step_wall_ns"] for row in rows}
        assert found.items() >= expected.items()
        assert sum(found.values()) == 30_000


@pytest.mark.parametrize("run", ["h200_finetune_L", "pretrain_Naive", "serve_vllm"])
def test_parts_of_a_decoder_add_up(opened: Opened, run: str) -> None:
    trace = opened(REPO / "sample_traces" / run)
    rows = trace.query("role_totals").to_dicts()
    assert sum(row["wall_ns"] for row in rows) == sum(trace.query("timeline").column("busy_ns"))
    steps = trace.query("step_totals").to_dicts()
    if steps:
        in_steps = sum(row["step_wall_ns"] for row in rows)
        assert in_steps == pytest.approx(steps[0]["step_work_ns"])
    else:
        assert {row["step_wall_ns"] for row in rows} == {None}


def test_an_analysis_may_call_another_with_parameters(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "most.sql").write_text(
        "-- How many kernels?\n--\n-- Kind:    analysis\n-- Scope:   run\n"
        "-- Requires: kernels()\n-- Params:\n--   most  BIGINT = 1  kernels of a device\n"
        "-- Columns:\n--   n  BIGINT  rows\n\n"
        "SELECT count(*) AS n FROM kernels(p_limit := $most)\n",
        encoding="utf-8",
    )
    with tracekit.open(REPO / "sample_traces" / "pretrain_R+Z3", queries=tmp_path) as trace:
        assert trace.query("most").rows == [(2,)]
        assert trace.query("most", most=3).rows == [(6,)]
        with pytest.raises(UsageError, match="most"):
            trace.query("most", most="many")


def test_the_whole_model_as_the_mean_over_devices() -> None:
    both = {"phase": "forward", "work": "span", "layer_count": 2, "step_ns": 1.0}
    ends = {"whole_step_ns": 30.0, "whole_max_step_ns": 40.0, "whole_pct": 50.0}
    told = both | ends | {"whole_max_pct": 60.0}
    untold = both | {"work": "gemm", "reason": "only 1 of 2 layers have it"}
    role = {"rank": 0, "device": "0", "phase": "forward", "role": "MLP", "layer_count": 2}
    rows = reduced(
        "whole_steps",
        rows_of(
            "layers",
            told | {"rank": 0, "device": "0"},
            told | {"rank": 1, "device": "0", "whole_step_ns": 10.0, "whole_pct": 20.0},
            told | {"rank": 0, "device": "0", "work": "copies", "step_ns": None},
            told | {"rank": 0, "device": "0", "work": "gemm", "layer_count": 3},
            untold | {"rank": 1, "device": "0"},
        ),
        rows_of("role_layers", role | {"whole_pct": 7.0, "whole_max_pct": 8.0}),
        rows_of("serving_layers", {"device": "0", "task_group": "rest", "task": "idle"}),
    )
    span, copies, gemm, mlp, idle = rows
    assert span == {
        "source": "layers",
        "phase": "forward",
        "work_group": None,
        "work": "span",
        "whole_step_ns": (30 + 10) / 2,
        "whole_max_step_ns": (40 + 40) / 2,
        "whole_pct": (50 + 20) / 2,
        "whole_max_pct": (60 + 60) / 2,
        "reason": None,
        "least_layer_count": 2,
        "most_layer_count": 2,
        "has_steps": True,
        "device_count": 2,
    }
    # The other device has no copies: they count as 0 there.
    assert (copies["whole_step_ns"], copies["has_steps"]) == (30 / 2, False)
    assert (gemm["whole_step_ns"], gemm["reason"]) == (None, "only 1 of 2 layers have it")
    assert (gemm["least_layer_count"], gemm["most_layer_count"]) == (3, 3)
    assert (mlp["source"], mlp["work"], mlp["whole_pct"], mlp["device_count"]) == (
        "role_layers",
        "MLP",
        7.0,
        1,
    )
    assert (idle["work_group"], idle["work"], idle["whole_step_ns"]) == ("rest", "idle", None)
