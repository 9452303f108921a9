"""Analysis module_icicle: modules lie within those around them, and fill the whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tracekit

REPO = Path(__file__).resolve().parents[2]
Opened = Callable[[Path], tracekit.Trace]


@pytest.mark.parametrize("name", ["pretrain_R+Z3", "finetune_QL", "serve_vllm"])
def test_the_picture_is_the_tree_of_modules(name: str, opened: Opened) -> None:
    trace = opened(REPO / "sample_traces" / name)
    rows = trace.query("module_icicle").to_dicts()
    totals = trace.query("module_totals").to_dicts()
    timeline = trace.query("timeline")
    widths_ns = {
        "modules": sum(timeline.column("busy_ns")),
        "phases": sum(timeline.column("window_ns")),
    }

    drawn = {row["module_path"]: row for row in rows if row["view"] == "modules"}
    assert len(drawn) == len(totals)
    for total in totals:
        row = drawn[total["module_path"]]
        for column in ("total_wall_ns", "self_wall_ns", "wall_pct", "depth", "kernel_count"):
            assert row[column] == total[column], total["module_path"]

    for view, width_ns in widths_ns.items():
        levels: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            if row["view"] == view:
                levels[row["depth"]].append(row)
        assert sum(row["to_ns"] - row["from_ns"] for row in levels[0]) == width_ns
        for level in levels.values():
            level.sort(key=lambda row: (row["from_ns"], row["to_ns"]))
            assert all(a["to_ns"] <= b["from_ns"] for a, b in pairwise(level))
        for depth in range(1, len(levels)):
            for row in levels[depth]:
                around = [
                    one
                    for one in levels[depth - 1]
                    if one["from_ns"] + one["self_wall_ns"] <= row["from_ns"]
                    and row["to_ns"] <= one["to_ns"]
                ]
                assert around, (view, row["module_path"])


def test_phases_of_the_picture_are_those_of_phases(opened: Opened) -> None:
    trace = opened(REPO / "sample_traces" / "pretrain_R+Z3")
    rows = trace.query("module_icicle").to_dicts()
    tops = {
        r["phase"]: (r["total_wall_ns"], r["idle_ns"])
        for r in rows
        if r["view"] == "phases" and not r["depth"]
    }
    phases = trace.query("phase_totals").to_dicts()
    assert tops == {row["phase"]: (row["wall_ns"], row["idle_ns"]) for row in phases}


@pytest.mark.parametrize("name", ["pretrain_R+Z3", "finetune_QL", "serve_vllm"])
def test_below_each_class_lie_the_modules_that_had_its_work(name: str, opened: Opened) -> None:
    trace = opened(REPO / "sample_traces" / name)
    rows = trace.query("class_icicle").to_dicts()
    totals = trace.query("kernel_class_totals").to_dicts()
    tops = {(r["class"], r["kind"]): r["total_wall_ns"] for r in rows if not r["depth"]}
    assert tops == {(row["class"], row["kind"]): row["wall_ns"] for row in totals}
    modules: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        if row["module_path"] is not None:
            modules[row["module_path"]] += row["total_wall_ns"]
    asked = trace.query("module_totals").to_dicts()
    assert modules == {row["module_path"]: row["total_wall_ns"] for row in asked}

    for row in rows:
        if not row["depth"]:
            continue
        around = [
            one
            for one in rows
            if one["depth"] == row["depth"] - 1
            and (one["class"], one["kind"]) == (row["class"], row["kind"])
            and one["from_ns"] + one["self_wall_ns"] <= row["from_ns"]
            and row["to_ns"] <= one["to_ns"]
        ]
        assert around, row["module_path"]
    deepest = max(row["depth"] for row in rows)
    for depth in range(deepest + 1):
        level = sorted((r["from_ns"], r["to_ns"]) for r in rows if r["depth"] == depth)
        assert all(a[1] <= b[0] for a, b in pairwise(level))


def test_classes_of_a_module_add_up_to_its_own_time(opened: Opened) -> None:
    trace = opened(REPO / "sample_traces" / "pretrain_R+Z3")
    own: defaultdict[str, int] = defaultdict(int)
    for row in trace.query("module_classes").to_dicts():
        own[row["module_path"]] += row["self_wall_ns"]
    asked = trace.query("module_totals").to_dicts()
    assert own == {r["module_path"]: r["self_wall_ns"] for r in asked if r["kernel_count"]}


def test_a_label_is_what_a_path_adds_to_that_around_it(opened: Opened) -> None:
    for name, expected in (
        ("pretrain_R+Z3", {"layers.*", "self_attn", "up_proj"}),
        ("serve_vllm", {"LlamaDecoderLayer_*", "LlamaAttention", "RMSNorm[0]"}),
    ):
        trace = opened(REPO / "sample_traces" / name)
        for analysis in ("module_icicle", "class_icicle"):
            labels = set(trace.query(analysis).column("label"))
            assert expected <= labels
            assert not any("/" in label for label in labels)
