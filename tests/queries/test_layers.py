"""Analyses layers and role_layers: what grows with the layers, and the whole model from some."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import AskedByRank, Cases

import tracekit

Event = dict[str, Any]
Opened = Callable[[Path], tracekit.Trace]

REPO = Path(__file__).resolve().parents[2]
GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

MLP = "model.layers.{}.mlp#LlamaMLP"
EMBEDDING = "model.embed_tokens#Embedding"
HEAD = "lm_head#Linear"


Work = tuple[tuple[str, ...], str, float]
"""The ranges around a launch, the kernel, its µs. `op@n` is an op with that sequence number."""


def forward(module: str, number: int, kernel: str, duration: float) -> Work:
    ranges = ("tk/phase/forward", f"tk/module/forward/{module}", f"aten::mm@{number}")
    return ranges, kernel, duration


def backward(number: int, kernel: str, duration: float) -> Work:
    """The work of the node that belongs to the forward op of that number."""
    node = f"autograd::engine::evaluate_function: MmBackward0@{number}"
    return ("tk/phase/backward", node), kernel, duration


# One step; the device waits 1 µs before each kernel.
STEP: list[Work] = [
    forward(EMBEDDING, 1, "embed", 2),
    forward(MLP.format(0), 2, GEMM, 10),
    forward(MLP.format(1), 3, GEMM, 14),
    forward(HEAD, 4, GEMM, 3),
    backward(3, "k", 20),
    backward(2, GEMM, 24),
    (("tk/phase/backward",), ALL_REDUCE, 8),
    (("tk/phase/optimizer",), "adam", 5),
]


def trace_of(steps: list[list[Work]]) -> list[Event]:
    events: list[Event] = []
    now, number = 0.0, 0

    def span(category: str, name: str, ts: float, dur: float, args: Any = None) -> None:
        pid = 0 if category == "kernel" else 1
        tid = 7 if category == "kernel" else 1
        head = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
        events.append({**head, "ts": ts, "dur": dur, "args": args or {}})

    for step, work in enumerate(steps):
        step_start = now
        for ranges, kernel, duration in work:
            number += 1
            linked = {"correlation": number, "device": 0, "stream": 7}
            for depth, marked in enumerate(ranges):
                nested = 0.01 * depth
                name, _, sequence = marked.partition("@")
                told = {}
                if sequence:
                    is_node = name.startswith("autograd::")
                    unique = 10 * step + int(sequence)
                    told = {"Sequence number": unique, "Fwd thread id": int(is_node)}
                category = "cpu_op" if sequence else "user_annotation"
                span(category, name, now + nested, duration + 1 - 2 * nested, told)
            span("cuda_runtime", "cudaLaunchKernel", now + 0.5, 0.25, linked)
            span("kernel", kernel, now + 1, duration, linked)
            now += duration + 1
        span("user_annotation", f"tk/step/{step}", step_start, now - step_start)
    return events


CASES = Cases()
cases = CASES.fixture()
TWO_STEPS = CASES.add(trace_of([STEP, STEP]))
ONE_STEP = CASES.add(trace_of([STEP]))
AROUND_LAYERS = CASES.add(
    trace_of([[forward(EMBEDDING, 1, "embed", 2), forward(HEAD, 2, GEMM, 3)]])
)
# A range of the user's, or what is called loss, may hold work that grows with the layers.
IN_NO_MODULE = {
    ranges: CASES.add(trace_of([[*STEP, (("tk/phase/forward", *ranges), "k", 6.0)]]))
    for ranges in ((), ("my range",), ("aten::mm@9",))
}
# The modules inside of a region have no ranges: their work is at the one that calls it.
REGION = ("tk/phase/forward", "tk/module/forward/model#LlamaModel", "Torch-Compiled Region: 0/0")
BESIDE_A_REGION = CASES.add(trace_of([[*STEP, (REGION, "k", 6.0)]]))


def asked(cases: AskedByRank, rank: int, name: str, **params: object) -> dict[tuple[str, str], Any]:
    second = "work" if name == "layers" else "role"
    return {(row["phase"], row[second]): row for row in cases.rows(rank, name, **params)}


def test_what_grows_with_the_layers_on_paper(cases: AskedByRank) -> None:
    """Two steps of two layers; the very first kernel has no idle time before it."""
    rows = asked(cases, TWO_STEPS, "layers", layers=32)
    roles = asked(cases, TWO_STEPS, "role_layers", layers=32)

    def split(phase: str, work: str) -> tuple[int, ...]:
        row = rows[phase, work]
        names = ("total_ns", "layer_ns", "around_ns", "untold_ns")
        return tuple(row[name] // 1000 for name in names)

    def whole(row: dict[str, Any]) -> tuple[float, float]:
        """The two ends, µs."""
        return row["whole_step_ns"] / 1000, row["whole_max_step_ns"] / 1000

    assert split("forward", "span") == (65, 52, 13, 0)
    assert split("backward", "span") == (110, 92, 0, 18)
    assert split("backward", "compute") == (88, 88, 0, 0)
    assert split("optimizer", "span") == (12, 0, 0, 12)
    assert split("(all)", "all-reduce") == (16, 0, 0, 16)
    assert rows["forward", "span"]["layer_count"] == 2
    assert rows["forward", "span"]["step_ns"] == 32_500

    # 32 layers are 16 times those that ran; what is around them stays; the rest is not told.
    assert whole(rows["forward", "span"]) == ((13 + 52 * 16) / 2, (13 + 52 * 16) / 2)
    assert whole(rows["backward", "span"]) == ((18 + 92 * 16) / 2, 110 * 16 / 2)
    assert whole(rows["backward", "compute"]) == (88 * 16 / 2, 88 * 16 / 2)
    for work in ("span", "compute"):
        row = rows["optimizer", work]
        assert (row["whole_step_ns"], row["reason"]) == (
            None,
            "not told whether it grows with the layers",
        )
    assert rows["(all)", "communication"]["reason"] == "not told whether it grows with the layers"
    # No copies are none in the whole model either.
    assert (rows["(all)", "copies"]["whole_step_ns"], rows["(all)", "copies"]["reason"]) == (
        0,
        None,
    )

    # Shares: of GEMMs in the kernels of the phase; of a step nothing, as the optimizer is not told.
    gemm = rows["forward", "gemm"]
    expected = 100 * (6 + 48 * 16) / (10 + 48 * 16)
    assert (gemm["whole_pct"], gemm["whole_max_pct"]) == (pytest.approx(expected),) * 2
    assert rows["forward", "span"]["whole_pct"] is None
    # At least with an all-reduce that grows, at most with one that stays. Of the kernels in layers
    # one of two layers has no GEMM in the backward phase.
    assert rows["backward", "gemm"]["reason"] == "only 1 of 2 layers have it"

    assert whole(roles["forward", "MLP"]) == (48 * 16 / 2, 48 * 16 / 2)
    assert whole(roles["forward", "Embedding"]) == (2, 2)
    assert roles["forward", "MLP"]["whole_pct"] == pytest.approx(100 * 768 / (13 + 52 * 16))
    assert whole(roles["backward", "MLP"]) == (88 * 16 / 2, 88 * 16 / 2)
    mlp = roles["backward", "MLP"]
    assert mlp["whole_pct"] == pytest.approx(100 * 1408 / (110 * 16))
    assert mlp["whole_max_pct"] == pytest.approx(100 * 1408 / (18 + 92 * 16))
    assert roles["backward", "non-overlapping communication"]["whole_step_ns"] is None


def test_as_many_layers_as_ran_are_what_ran(cases: AskedByRank) -> None:
    for name in ("layers", "role_layers"):
        for row in asked(cases, TWO_STEPS, name, layers=2).values():
            if row["reason"] is None:
                assert row["whole_step_ns"] == row["whole_max_step_ns"] == row["step_ns"]


def test_fewer_layers_than_ran_take_less(cases: AskedByRank) -> None:
    row = asked(cases, TWO_STEPS, "layers", layers=1)["backward", "span"]
    assert (row["whole_step_ns"], row["whole_max_step_ns"]) == (110_000 / 4, (18 + 46) * 500)


def test_without_a_number_of_layers_nothing_is_extrapolated(cases: AskedByRank) -> None:
    for name in ("layers", "role_layers"):
        rows = asked(cases, ONE_STEP, name)
        assert {row["whole_step_ns"] for row in rows.values()} == {None}
        assert {row["whole_pct"] for row in rows.values()} == {None}


def test_without_layers_the_reason_is_said(cases: AskedByRank) -> None:
    rows = asked(cases, AROUND_LAYERS, "layers", layers=32)
    assert {row["reason"] for row in rows.values()} == {"the trace tells no layers"}


@pytest.mark.parametrize("ranges", IN_NO_MODULE)
def test_what_no_module_holds_is_not_told_to_be_around_the_layers(
    cases: AskedByRank, ranges: tuple[str, ...]
) -> None:
    row = asked(cases, IN_NO_MODULE[ranges], "layers", layers=32)["forward", "kernels"]
    assert (row["around_ns"], row["untold_ns"]) == (5_000, 6_000)


def test_beside_compiled_regions_no_module_is_told_to_be_around_the_layers(
    cases: AskedByRank,
) -> None:
    for name, key in (("layers", ("forward", "kernels")), ("role_layers", ("forward", "MLP"))):
        assert asked(cases, BESIDE_A_REGION, name, layers=32)[key]["around_ns"] == 0
    row = asked(cases, BESIDE_A_REGION, "layers", layers=32)["forward", "kernels"]
    assert (row["layer_ns"], row["untold_ns"]) == (24_000, 11_000)


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
