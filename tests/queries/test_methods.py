"""Analyses methods and scaling: training runs beside each other, by figures on paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tracekit.errors import QueryError

MakeRun = Callable[..., Path]


def model(name: str = "llama2-7b", parameter_count: int = 7_000_000_000) -> dict[str, Any]:
    return {"name": name, "parameter_count": parameter_count}


def on_gpus(count: int) -> dict[str, Any]:
    return {
        "parallel": {"world_size": count, "data_size": count},
        "environment": {"devices": ["A800"] * count},
    }


def asked(folder: Path, name: str, *columns: str) -> list[tuple[Any, ...]]:
    with tracekit.open(folder, traces=False, cache=False) as runs:
        return [tuple(row[column] for column in columns) for row in runs.query(name).to_dicts()]


def test_a_row_per_method(make_run: MakeRun, tmp_path: Path) -> None:
    memory = [
        {"rank": 0, "device_allocated_bytes": 40, "device_reserved_bytes": 50, "host_bytes": 9},
        {"rank": 1, "device_allocated_bytes": 41, "device_reserved_bytes": 45, "host_bytes": None},
    ]
    shared = {"model": model(), "batch_size": 1, **on_gpus(2)}
    make_run(
        "z3", opt="Z3", tokens_per_s_mean=1000, tokens_per_s_std=2.5, peak_memory=memory, **shared
    )
    make_run("r+z3", opt="R+Z3", tokens_per_s_mean=900.5, **shared)
    make_run("naive", opt="Naive", outcome="oom", reason="CUDA out of memory", **shared)
    make_run("lora", stage="finetune", opt="L", tokens_per_s_mean=5000, **shared)
    make_run("serving", stage="serve", engine="vllm")
    columns = (
        "run",
        "stage",
        "method",
        "mean_tokens_per_s",
        "std_tokens_per_s",
        "peak_bytes",
        "outcome",
    )
    assert asked(tmp_path, "methods", *columns) == [
        ("z3", "pretrain", "Z3", 1000.0, 2.5, 41, "ok"),
        ("r+z3", "pretrain", "R+Z3", 900.5, None, None, "ok"),
        ("naive", "pretrain", "Naive", None, None, None, "oom"),
        ("lora", "finetune", "L", 5000.0, None, None, "ok"),
    ]


def test_without_accelerator_memory_is_that_of_the_process(make_run: MakeRun) -> None:
    memory = [{"rank": 0, "host_bytes": 7}, {"rank": 1, "host_bytes": 8}]
    folder = make_run("cpu", peak_memory=memory)
    assert asked(folder, "methods", "peak_bytes", "mean_tokens_per_s") == [(8, None)]


def test_a_manifest_that_cannot_be_read_has_a_row(make_run: MakeRun, tmp_path: Path) -> None:
    make_run("good", tokens_per_s_mean=1)
    bad = make_run("bad", batch_size="one")
    assert asked(tmp_path, "methods", "run", "outcome", "stage") == [
        ("good", "ok", "pretrain"),
        ("bad", "unreadable", None),
    ]
    ((_, reason), *_) = asked(tmp_path, "run", "run", "reason")
    assert reason == (
        f"{bad}/run.json: the manifest is not valid: "
        "Expected `int | null`, got `str` - at `$.batch_size`"
    )


def test_scaling_on_paper(make_run: MakeRun, tmp_path: Path) -> None:
    """8 ranks do 6.4 times the work of one: 80 %. Another batch size is another configuration."""
    shared = {"model": model(), "opt": "Q", "batch_size": 2, "sequence_length": 350}
    make_run("one", tokens_per_s_mean=1000, tokens_per_s_std=1, **shared, **on_gpus(1))
    make_run("two", tokens_per_s_mean=1900, **shared, **on_gpus(2))
    make_run("eight", tokens_per_s_mean=6400, **shared, **on_gpus(8))
    make_run("four", outcome="oom", reason="x", **shared, **on_gpus(4))
    make_run("other2", tokens_per_s_mean=500, **(shared | {"batch_size": 1}), **on_gpus(2))
    make_run("other4", tokens_per_s_mean=1000, **(shared | {"batch_size": 1}), **on_gpus(4))
    make_run("serving", stage="serve", tokens_per_s_mean=9, **on_gpus(8))
    columns = ("run", "world_size", "base_world_size", "speedup", "efficiency_pct", "device")
    assert asked(tmp_path, "scaling", *columns) == [
        ("other2", 2, 2, 1.0, 100.0, "A800"),
        ("other4", 4, 2, 2.0, 100.0, "A800"),
        ("one", 1, 1, 1.0, 100.0, "A800"),
        ("two", 2, 1, 1.9, 95.0, "A800"),
        ("four", 4, 1, None, None, "A800"),
        ("eight", 8, 1, 6.4, 80.0, "A800"),
    ]


def test_the_base_is_the_mean_of_equal_runs(make_run: MakeRun, tmp_path: Path) -> None:
    """Repeats of the base differ by noise, which is no scaling: they have no speedup."""
    make_run("a", tokens_per_s_mean=900, **on_gpus(1))
    make_run("b", tokens_per_s_mean=1100, **on_gpus(1))
    make_run("c", tokens_per_s_mean=1500, **on_gpus(2))
    make_run("d", tokens_per_s_mean=1800, **on_gpus(2))
    columns = ("run", "base_world_size", "speedup", "efficiency_pct")
    assert asked(tmp_path, "scaling", *columns) == [
        ("a", 1, None, None),
        ("b", 1, None, None),
        ("c", 1, 1.5, 75.0),
        ("d", 1, 1.8, 90.0),
    ]


def test_a_failed_repeat_leaves_the_base_a_single_run(make_run: MakeRun, tmp_path: Path) -> None:
    make_run("a", tokens_per_s_mean=900, **on_gpus(1))
    make_run("b", outcome="failed", tokens_per_s_mean=100, **on_gpus(1))
    make_run("c", tokens_per_s_mean=1350, **on_gpus(2))
    assert asked(tmp_path, "scaling", "run", "speedup", "efficiency_pct") == [
        ("a", 1.0, 100.0),
        ("b", None, None),
        ("c", 1.5, 75.0),
    ]


def test_other_hardware_is_another_configuration(make_run: MakeRun, tmp_path: Path) -> None:
    make_run("a", tokens_per_s_mean=900, **on_gpus(1))
    environment = {"environment": {"devices": ["RTX4090"] * 2}}
    make_run("b", tokens_per_s_mean=1100, **(on_gpus(2) | environment))
    rows = asked(tmp_path, "scaling", "run", "device", "speedup")
    assert sorted(rows) == [("a", "A800", 1.0), ("b", "RTX4090", 1.0)]


def test_a_run_in_full(make_run: MakeRun) -> None:
    repeats = [
        {"tokens_per_s": 990, "wall_ns": 300, "step_ns": [100, 200]},
        {"tokens_per_s": 1010, "wall_ns": 300, "step_ns": [120, 180], "final_loss": float("nan")},
    ]
    overhead = {"plain_step_ns": 1, "ranges_step_ns": 160, "profiled_step_ns": 300}
    folder = make_run(
        "x",
        repeats=repeats,
        overhead=overhead,
        peak_memory=[{"rank": 0, "device_allocated_bytes": 1, "device_reserved_bytes": 2}],
        notes=["slow disk"],
        traces=["rank0.json.gz"],
    )
    with tracekit.open(folder, traces=False, cache=False) as runs:
        (row,) = runs.query("run").to_dicts()
        health = {row["metric"]: row for row in runs.query("run_health").to_dicts()}
        loss = runs.sql("SELECT final_loss FROM run_repeat ORDER BY repeat").column("final_loss")
    assert (row["repeat_count"], row["mean_step_ns"]) == (2, 150.0)
    assert (row["ranges_step_ns"], row["profiled_step_ns"]) == (160, 300)
    assert (row["peak_device_bytes"], row["peak_reserved_bytes"]) == (1, 2)
    assert (row["peak_host_bytes"], row["trace_count"], row["notes"]) == (None, 1, ["slow disk"])
    assert loss[0] is None
    assert loss[1] != loss[1]
    assert (
        health["profiled_step_slowdown"]["value"],
        health["profiled_step_slowdown"]["severity"],
    ) == (
        100.0,
        "note",
    )
    assert health["missing_trace_files"]["value"] == 1
    assert "requests_missing" not in health


def test_a_plain_trace_has_no_runs(tiny_trace: Callable[..., Path]) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1}
    with (
        tracekit.open(tiny_trace([event]), cache=False) as trace,
        pytest.raises(QueryError) as raised,
    ):
        trace.query("methods")
    assert (
        raised.value.message == "methods is about runs, and there is no run.json beside the trace"
    )
