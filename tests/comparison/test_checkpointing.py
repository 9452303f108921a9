"""Recomputation is told as what it is: work of its own phase, new where the base has none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from injected import Event, Injected
from traces_by_hand import call, kernel, span

import tracekit

_MODULE = "model.layers.0.mlp"


def _step(*, is_recomputed: bool) -> list[Event]:
    """A forward of 100 µs and a backward of 200 µs, between them the forward once more."""
    parts = [("forward", "gemm_fwd", 100), ("recompute", "gemm_fwd", 110), ("backward", "bwd", 200)]
    events: list[Event] = []
    at = 0.0
    for number, (phase, name, dur) in enumerate(parts, 1):
        if phase == "recompute" and not is_recomputed:
            continue
        events += [
            span("user_annotation", f"tk/phase/{phase}", at, at + dur + 20),
            span("user_annotation", f"tk/module/{phase}/{_MODULE}#MLP", at + 1, at + dur + 15),
            call(at + 2, at + 4, number),
            kernel(name, at + 10, at + 10 + dur, number),
        ]
        at += dur + 20
    return events


def test_recomputation_that_the_base_has_not(tmp_path: Path) -> None:
    base, new = (
        Injected({"traceEvents": _step(is_recomputed=flag)}).write(tmp_path / f"{flag}.json")
        for flag in (False, True)
    )
    found = tracekit.compare(base, new, cache=False)
    # The kernel of 110 µs, and the 20 µs between it and the one before.
    assert {name: ns for name, ns in found.root.effects.items() if ns} == {
        "by_recompute_ns": 130_000
    }
    assert found.delta_ns == 130_000
    back = tracekit.compare(new, base, cache=False)
    assert {name: ns for name, ns in back.root.effects.items() if ns} == {
        "by_recompute_ns": -130_000
    }


@pytest.mark.parametrize("name", ["cpu_llama_lora", "cpu_llama_z3_rank0"])
@pytest.mark.nightly("compares complete traces")
def test_checkpointing_against_none_and_against_another(
    public_traces: Path, opened: Callable[[Path], tracekit.Trace], name: str
) -> None:
    """Without checkpointing all of it is new; another mode of it is compared within its phase."""
    sides = [
        opened(public_traces / f"{one}.json.gz") for one in (name, "cpu_llama_ckpt_module_ranges")
    ]
    found = tracekit.compare(*sides)
    recomputed = [
        sum(
            row["wall_ns"] for row in side.query("phases").to_dicts() if row["phase"] == "recompute"
        )
        for side in sides
    ]
    work = [pair for pair in found.pairs if pair.phase == "recompute" and pair.part == "compute"]
    assert sum(cell.wall_ns for pair in work for cell in pair.base) == recomputed[0]
    assert sum(cell.wall_ns for pair in work for cell in pair.new) == recomputed[1] > 0
    if recomputed[0] == 0:
        idle_ns = sum(
            cell.wall_ns
            for pair in found.pairs
            if pair.phase == "recompute" and pair.part == "idle"
            for cell in pair.new
        )
        assert {pair.match for pair in work} == {"new"}
        assert found.root.effects["by_recompute_ns"] == recomputed[1] + idle_ns
    else:
        assert {"op", "same"} & {pair.match for pair in work}
