"""Analyses layers and role_layers beside others; on paper in tests/cases/grown_layers.case."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit

Opened = Callable[[Path], tracekit.Trace]

REPO = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", ["pretrain_Naive", "pretrain_R+Z3", "finetune_QL"])
def test_they_split_what_phases_and_roles_have(opened: Opened, folder: str) -> None:
    trace = opened(REPO / "sample_traces" / folder)
    spans: dict[Any, int] = {}
    for row in trace.query("phases").to_dicts():
        phase = "backward" if row["phase"] == "recompute" else row["phase"]
        key = (row["rank"], row["device"], phase)
        spans[key] = spans.get(key, 0) + row["wall_ns"] + row["idle_ns"]
    rows = trace.query("layers").to_dicts()
    assert {
        (row["rank"], row["device"], row["phase"]): row["total_ns"]
        for row in rows
        if row["work"] == "span"
    } == spans
    assert {row["layer_count"] for row in rows} == {4}

    names = ("rank", "device", "phase", "role", "wall_ns")
    roles = [tuple(row[name] for name in names) for row in trace.query("roles").to_dicts()]
    found = trace.query("role_layers").to_dicts()
    assert [tuple(row[name] for name in names) for row in found] == roles


@pytest.mark.parametrize("folder", ["pretrain_Naive", "pretrain_R+Z3"])
def test_they_agree_with_the_figures_of_a_step(opened: Opened, folder: str) -> None:
    trace = opened(REPO / "sample_traces" / folder)
    found = {
        (row["rank"], row["work"]): row["step_ns"]
        for row in trace.query("layers").to_dicts()
        if row["phase"] == "(all)"
    }
    communication: dict[Any, float] = {}
    for row in trace.query("communication").to_dicts():
        for work in ("communication", *(["all-reduce"] * (row["class"] == "comm_allreduce"))):
            key = (row["rank"], work)
            communication[key] = communication.get(key, 0) + row["step_kernel_ns"]
    assert communication
    for key, time_ns in communication.items():
        assert found[key] == pytest.approx(time_ns)
