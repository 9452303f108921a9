"""The step of an optimizer that was given a closure holds forward and backward work."""

from __future__ import annotations

import pytest
from cases_as_ranks import AskedByRank, Cases
from traces_by_hand import Event, span, work

NODE = "autograd::engine::evaluate_function: MmBackward0"
STEP = "Optimizer.step#AdamW.step"


def on_cpu(*extra: Event) -> list[Event]:
    """Two closures called by one step, as by L-BFGS; every op computes for its whole length."""
    return [
        span("user_annotation", STEP, 0, 100),
        *extra,
        span("cpu_op", "aten::addmm", 10, 20, **{"Sequence number": 1}),
        span("cpu_op", "aten::mean", 20, 25, **{"Sequence number": 2}),
        span("user_annotation", "Optimizer.zero_grad#AdamW.zero_grad", 25, 30),
        span("cpu_op", "aten::zero_", 26, 28),
        span("cpu_op", NODE, 30, 50, **{"Sequence number": 1, "Fwd thread id": 0}),
        span("cpu_op", "MmBackward0", 30, 50, **{"Sequence number": 1, "Fwd thread id": 1}),
        span("cpu_op", "aten::mm", 31, 49),
        span("cpu_op", "aten::add_", 60, 65),
        span("cpu_op", "aten::addmm", 70, 80, **{"Sequence number": 3}),
        span("cpu_op", "MmBackward0", 80, 85, **{"Sequence number": 3, "Fwd thread id": 1}),
        span("cpu_op", "aten::mm", 81, 84),
        span("cpu_op", "aten::addcdiv_", 90, 99),
    ]


CASES = Cases()
asked = CASES.fixture()


def wall_ns(asked: AskedByRank, rank: int) -> dict[str, int]:
    return {row["phase"]: row["wall_ns"] for row in asked.rows(rank, "phases")}


def launched(start: float, correlation: int, tid: int = 1) -> list[Event]:
    at = 1000 + 20 * correlation
    return work(start, at, at + 10, correlation, f"k{correlation}", tid=tid)


CLOSURES = {
    "ops": CASES.add(on_cpu()),
    "modules": CASES.add(on_cpu(span("python_function", "nn.Module: Net_0", 9, 20))),
    "our own range": CASES.add(on_cpu(span("user_annotation", "tk/phase/optimizer", 1, 99))),
}


@pytest.mark.parametrize("extra", CLOSURES)
def test_what_a_closure_does_is_not_the_optimizers(asked: AskedByRank, extra: str) -> None:
    found = wall_ns(asked, CLOSURES[extra])
    assert found == {"forward": 25_000, "backward": 21_000, "optimizer": 16_000}


def test_the_rows_of_modules_follow(asked: AskedByRank) -> None:
    rows: dict[str, int] = {}
    for row in asked.rows(CLOSURES["modules"], "modules"):
        rows[row["module_path"]] = rows.get(row["module_path"], 0) + row["self_wall_ns"]
    assert rows == {
        "Net_0": 10_000 + 18_000,
        "(loss)": 5_000 + 10_000 + 3_000,
        "(zero_grad)": 2_000,
        "(optimizer)": 5_000 + 9_000,
    }


ON_ANOTHER_THREAD = CASES.add(
    [
        span("user_annotation", STEP, 0, 100),
        span("cpu_op", "aten::addmm", 10, 20, **{"Sequence number": 1}),
        *launched(12, 1),
        span("cpu_op", NODE, 30, 50, 2, **{"Sequence number": 1, "Fwd thread id": 1}),
        *launched(40, 2, tid=2),
        *launched(90, 3),
    ]
)


def test_a_backward_pass_on_another_thread(asked: AskedByRank) -> None:
    """With an accelerator, autograd has threads of its own."""
    assert wall_ns(asked, ON_ANOTHER_THREAD) == {
        "forward": 10_000,
        "backward": 10_000,
        "optimizer": 10_000,
    }


WITH_GRADIENTS = CASES.add(
    [
        span("cpu_op", "aten::addmm", 0, 10, **{"Sequence number": 1}),
        span("cpu_op", "MmBackward0", 20, 30, **{"Sequence number": 1, "Fwd thread id": 1}),
        span("user_annotation", STEP, 40, 60),
        span("cpu_op", "aten::add_", 41, 51, **{"Sequence number": 2}),
    ]
)


def test_an_optimizer_that_computes_with_gradients_on(asked: AskedByRank) -> None:
    """Some foreign ones do; without a backward pass inside, all of it is the optimizer's."""
    assert wall_ns(asked, WITH_GRADIENTS)["optimizer"] == 10_000


INSIDE_OF_A_NODE = CASES.add(
    [
        span("cpu_op", "aten::addmm", 0, 10, **{"Sequence number": 1}),
        span("cpu_op", "MmBackward0", 20, 60, **{"Sequence number": 1, "Fwd thread id": 1}),
        span("user_annotation", STEP, 30, 50),
        span("cpu_op", "aten::add_", 31, 41),
    ]
)


def test_an_optimizer_inside_of_a_node(asked: AskedByRank) -> None:
    """A hook that steps as soon as a gradient is there."""
    found = wall_ns(asked, INSIDE_OF_A_NODE)
    assert found["optimizer"] == 10_000
