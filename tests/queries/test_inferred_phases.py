"""Phases that no range tells: by sequence numbers, by neighbours, by what may be where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from cases_as_ranks import AskedByRank, Cases
from traces_by_hand import Event, span

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
TRITON = "triton_poi_fused_add_0"
BACKWARD = "autograd::engine::evaluate_function: CompiledFunctionBackward"


class Step:
    """One step of training, written down as it runs: every launch takes 1 µs, every kernel 10."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.at = 0.0
        self.count = 0

    def work(self, *names: str, tid: int = 1) -> None:
        """Launch kernels, and copies by their names."""
        for name in names:
            self.count += 1
            start = 100_000 + 20 * self.count
            args = {"correlation": self.count, "device": 0, "stream": 7}
            copy = name.startswith("Memcpy")
            call = "cudaMemcpyAsync" if copy else "cudaLaunchKernel"
            self.events += [
                span("cuda_runtime", call, self.at, self.at + 1, tid, correlation=self.count),
                span("gpu_memcpy" if copy else "kernel", name, start, start + 10, 7, **args)
                | {"pid": 0},
            ]
            self.at += 2

    def inside(self, category: str, name: str, *names: str, tid: int = 1, **args: Any) -> None:
        """Launch kernels inside of a span."""
        start = self.at
        self.at += 1
        self.work(*names, tid=tid)
        self.events.append(span(category, name, start, self.at, tid, **args))
        self.at += 1

    def backward(self, number: int, *names: str) -> None:
        """Run the node of a forward op."""
        args = {"Sequence number": number, "Fwd thread id": 1}
        self.inside("cpu_op", BACKWARD, *names, tid=2, **args)

    def range(self, name: str, *names: str) -> None:
        self.inside("user_annotation", name, *names)


CASES = Cases()
asked = CASES.fixture()


def phases(asked: AskedByRank, rank: int) -> list[tuple[str, str, bool]]:
    """Return name, phase and whether it is inferred, of every device event in order."""
    return asked.table(rank, "attributed_events", "name, phase, is_inferred", "ts_ns")


def only_phases(found: Sequence[tuple[str, str, bool]]) -> list[str]:
    return [phase for _, phase, _ in found]


def compiled_forward() -> Step:
    """The op that is compiled has the sequence number; what it calls has none."""
    step = Step()
    step.range("Optimizer.zero_grad#SGD.zero_grad", ADD)
    number = {"Sequence number": 27, "Fwd thread id": 0}
    start = step.at
    step.inside("cpu_op", "aten::addmm", GEMM)
    step.inside("user_annotation", "## Call CompiledFxGraph abc ##", TRITON)
    step.work(TRITON)
    step.events.append(span("cpu_op", "CompiledFunction", start, step.at, **number))
    step.events.append(span("cpu_op", "Torch-Compiled Region: 0/0", start - 0.5, step.at + 0.5))
    step.at += 2
    step.backward(27, GEMM, TRITON)
    step.range("Optimizer.step#SGD.step", ADD)
    return step


COMPILED_FORWARD = CASES.add(compiled_forward().events)


def test_a_compiled_forward_behind_zero_grad(asked: AskedByRank) -> None:
    assert phases(asked, COMPILED_FORWARD) == [
        (ADD, "optimizer", False),
        (GEMM, "forward", False),
        (TRITON, "forward", False),
        (TRITON, "forward", False),
        (GEMM, "backward", False),
        (TRITON, "backward", False),
        (ADD, "optimizer", False),
    ]
    linked = asked.table(
        COMPILED_FORWARD,
        "(SELECT s.trace_id, f.name FROM surroundings AS s"
        " JOIN event AS f ON (s.trace_id, s.forward_op_id) = (f.trace_id, f.event_id)"
        " WHERE s.node_id IS NOT NULL)",
        "DISTINCT name",
    )
    assert linked == [("CompiledFunction",)]


def old_compiler(zeroed: Sequence[str], names: Sequence[str]) -> Step:
    """No number tells it: a region that an old compiler wrote. Gradients may be set to None."""
    step = Step()
    step.range("Optimizer.step#SGD.step", ADD)
    step.range("Optimizer.zero_grad#SGD.zero_grad", *zeroed)
    step.inside("cpu_op", "Torch-Compiled Region", *names)
    step.backward(27, GEMM)
    return step


OLD_COMPILER = {
    (zeroed, names): CASES.add(old_compiler(zeroed, names).events)
    for zeroed in ((), (ADD,))
    for names in ((GEMM, TRITON), (TRITON, ADD))
}


@pytest.mark.parametrize("names", [(GEMM, TRITON), (TRITON, ADD)], ids=["gemm", "elementwise"])
@pytest.mark.parametrize("zeroed", [(), (ADD,)], ids=["to None", "to zero"])
def test_what_runs_between_zero_grad_and_backward_is_forward(
    asked: AskedByRank, names: tuple[str, ...], zeroed: tuple[str, ...]
) -> None:
    found = phases(asked, OLD_COMPILER[zeroed, names])[1 + len(zeroed) : -1]
    assert found == [(name, "forward", True) for name in names]


def zeroed_late(*zeroed: str) -> Step:
    """Gradients are zeroed right before the backward pass; no op has a number."""
    step = Step()
    for _ in range(2):
        step.inside("cpu_op", "aten::mm", GEMM, ADD)
        step.range("Optimizer.zero_grad#SGD.zero_grad", *zeroed)
        step.inside("cpu_op", "MmBackward", GEMM, tid=2)
        step.range("Optimizer.step#SGD.step", ADD)
    return step


ZEROED_LATE = {zeroed: CASES.add(zeroed_late(*zeroed).events) for zeroed in ((), (ADD, ADD))}


@pytest.mark.parametrize("zeroed", ZEROED_LATE, ids=["to None", "to zero"])
def test_a_forward_pass_may_lie_before_zero_grad(
    asked: AskedByRank, zeroed: tuple[str, ...]
) -> None:
    zero = ["optimizer"] * len(zeroed)
    step = ["forward", "forward", *zero, "backward", "optimizer"]
    assert only_phases(phases(asked, ZEROED_LATE[zeroed])) == step * 2


def behind_backward(*names: str) -> Step:
    step = Step()
    step.inside("cpu_op", "aten::mm", GEMM, **{"Sequence number": 1, "Fwd thread id": 0})
    step.backward(1, GEMM)
    step.work(*names)
    step.inside("cpu_op", "aten::mm", GEMM, **{"Sequence number": 2, "Fwd thread id": 0})
    step.backward(2, GEMM)
    return step


ADDS_BEHIND_BACKWARD = CASES.add(behind_backward(ADD, ADD).events)
GEMM_BEHIND_BACKWARD = CASES.add(behind_backward(ADD, GEMM).events)


def test_a_gemm_is_no_optimizer(asked: AskedByRank) -> None:
    """Behind backward without a range: an optimizer by its kernels, else nobody knows."""
    for rank, phase in ((ADDS_BEHIND_BACKWARD, "optimizer"), (GEMM_BEHIND_BACKWARD, "other")):
        found = phases(asked, rank)
        assert only_phases(found) == ["forward", "backward", phase, phase, "forward", "backward"]
        assert [is_inferred for *_, is_inferred in found[2:4]] == [phase != "other"] * 2


def products_of_gradients() -> Step:
    """PowerSGD by hand: products with sequence numbers before the optimizer's step."""
    step = Step()
    step.inside("cpu_op", "aten::mm", GEMM, **{"Sequence number": 1, "Fwd thread id": 0})
    step.backward(1, GEMM)
    step.inside("cpu_op", "aten::mm", GEMM, **{"Sequence number": 2, "Fwd thread id": 0})
    step.work(GEMM)
    step.range("Optimizer.step#SGD.step", ADD)
    return step


PRODUCTS_OF_GRADIENTS = CASES.add(products_of_gradients().events)


def test_products_of_gradients_before_the_optimizers_step_are_no_forward(
    asked: AskedByRank,
) -> None:
    found = phases(asked, PRODUCTS_OF_GRADIENTS)
    assert only_phases(found) == ["forward", "backward", *["optimizer"] * 3]
    assert [is_inferred for *_, is_inferred in found] == [False, False, True, True, False]


def between_backward_passes(tid: int) -> Step:
    step = Step()
    step.inside("cpu_op", "aten::mm", GEMM, **{"Sequence number": 1, "Fwd thread id": 0})
    step.backward(1, GEMM)
    step.work(ADD, GEMM, tid=tid)
    step.backward(1, GEMM)
    return step


ON_THE_THREAD_OF_AUTOGRAD = CASES.add(between_backward_passes(tid=2).events)
ON_ANOTHER_THREAD = CASES.add(between_backward_passes(tid=1).events)


def test_a_model_between_two_backward_passes_is_no_backward(asked: AskedByRank) -> None:
    """On a thread of autograd it is; on another one nobody knows."""
    for rank, phase in ((ON_THE_THREAD_OF_AUTOGRAD, "backward"), (ON_ANOTHER_THREAD, "other")):
        found = only_phases(phases(asked, rank))
        assert found == ["forward", "backward", phase, phase, "backward"]


def behind_the_optimizer(name: str) -> Step:
    step = Step()
    step.range("Optimizer.step#SGD.step", ADD)
    step.work(name)
    step.inside("cpu_op", "aten::mm", GEMM, **{"Sequence number": 2, "Fwd thread id": 0})
    step.backward(2, GEMM)
    return step


BEHIND_THE_OPTIMIZER = {name: CASES.add(behind_the_optimizer(name).events) for name in (ADD, GEMM)}


def test_behind_the_optimizer_only_what_an_optimizer_does(asked: AskedByRank) -> None:
    for name, phase in ((ADD, "optimizer"), (GEMM, "other")):
        assert only_phases(phases(asked, BEHIND_THE_OPTIMIZER[name]))[1] == phase


COPY = "Memcpy HtoD (Pinned -> Device)"


def copies() -> Step:
    """Copies before a module, in one, in its backward pass and in the optimizer."""
    step = Step()
    step.range("Optimizer.step#SGD.step", ADD)
    step.inside("cpu_op", "aten::add_", ADD, **{"Sequence number": 5, "Fwd thread id": 0})
    step.work(COPY)
    step.inside("cpu_op", "aten::to", COPY, **{"Sequence number": 6, "Fwd thread id": 0})
    start = step.at
    step.inside("cpu_op", "aten::mm", GEMM, COPY, **{"Sequence number": 7, "Fwd thread id": 0})
    step.events.append(span("python_function", "nn.Module: Net_0", start, step.at))
    step.at += 2
    step.backward(7, GEMM, COPY)
    step.range("Optimizer.step#SGD.step", COPY)
    return step


COPIES = CASES.add(copies().events)


def test_copies_to_the_device_are_data(asked: AskedByRank) -> None:
    """Outside of modules, whatever ran before: an op with a number does not make them forward."""
    assert phases(asked, COPIES)[2:] == [
        (COPY, "data", False),
        (COPY, "data", False),
        (GEMM, "forward", False),
        (COPY, "forward", False),
        (GEMM, "backward", False),
        (COPY, "backward", False),
        (COPY, "optimizer", False),
    ]
    rows = {
        (row["phase"], row["module_path"]): row["kernel_count"]
        for row in asked.rows(COPIES, "modules")
    }
    assert rows["data", "(data loading)"] == 2
    assert [path for phase, path in rows if phase == "data"] == ["(data loading)"]
    assert not [phase for phase, path in rows if path == "(data loading)" and phase != "data"]


def inferred(count: int) -> Step:
    step = Step()
    step.inside("cpu_op", "aten::mm", GEMM, GEMM, **{"Sequence number": 1, "Fwd thread id": 0})
    step.backward(1, GEMM)
    step.work(*[ADD] * count)
    return step


INFERRED = [CASES.add(inferred(count).events) for count in (1, 2)]


def test_health_warns_of_what_is_inferred(asked: AskedByRank) -> None:
    """A quarter of the device time may come from neighbours; beyond that health warns."""
    severities = {}
    for rank in INFERRED:
        (row,) = (
            row for row in asked.rows(rank, "health") if row["metric"] == "inferred_device_time"
        )
        severities[row["value"]] = row["severity"]
    assert severities == {25.0: "note", 40.0: "warn"}


def rollout() -> Step:
    """Tokens are sampled between the calls of the model that generate, and a loss comes after."""
    softmax = "void at::native::cunn_SoftMaxForward<4, float>(int)"
    step = Step()
    for _ in range(2):
        step.range("tk/phase/generation", GEMM)
        step.work(softmax)
    step.range("tk/phase/generation", GEMM)
    step.range("tk/phase/forward", GEMM)
    step.backward(1, GEMM)
    step.range("tk/phase/optimizer", ADD)
    return step


ROLLOUT = CASES.add(rollout().events)


def test_what_lies_between_calls_that_generate_is_generation(asked: AskedByRank) -> None:
    found = phases(asked, ROLLOUT)
    assert only_phases(found) == ["generation"] * 5 + ["forward", "backward", "optimizer"]
    assert [is_inferred for _, _, is_inferred in found][:5] == [False, True, False, True, False]


NUMBER = {"Sequence number": 1, "Fwd thread id": 0}
CALL = {"Python id": 1, "Python module id": 0}
INNER = {"Python id": 2, "Python parent id": 1, "Python module id": 0}


def forward_with(name: str, around: str = "", outer: str = "") -> Step:
    """A forward pass that holds a product without gradients, in calls of modules or in none."""
    step = Step()
    step.range("Optimizer.zero_grad#SGD.zero_grad")
    begun = step.at
    step.at += 2
    step.inside("cpu_op", "aten::mm", GEMM, **NUMBER)
    called = step.at
    step.at += 1
    step.inside("cpu_op", name, GEMM)
    step.at += 1
    if around:
        step.events.append(span("python_function", around, called, step.at, **INNER))
    step.inside("cpu_op", "aten::mm", GEMM, **(NUMBER | {"Sequence number": 2}))
    step.at += 1
    if outer:
        step.events.append(span("python_function", outer, begun, step.at, **CALL))
    step.at += 1
    step.backward(1, GEMM)
    step.range("Optimizer.step#SGD.step", ADD)
    return step


NET, ROTARY = "nn.Module: Net_0", "nn.Module: Rotary_0"
WITHOUT_GRADIENTS = {
    "a mask, without modules": (CASES.add(forward_with("aten::bmm").events), "forward"),
    "a rotary embedding": (CASES.add(forward_with("aten::bmm", ROTARY, NET).events), "forward"),
    "a whole call of a teacher": (
        CASES.add(forward_with("aten::addmm", "nn.Module: Teacher_0").events),
        "evaluation",
    ),
}


def test_work_without_gradients_in_a_forward_pass_is_forward_unless_a_model_is_called(
    asked: AskedByRank,
) -> None:
    for which, (rank, expected) in WITHOUT_GRADIENTS.items():
        found = only_phases(phases(asked, rank))
        assert found == ["forward", expected, "forward", "backward", "optimizer"], which


def evaluated_module(number: dict[str, Any]) -> Step:
    """A module is called in a step, and again behind its optimizer: with a number, or with none."""
    step = Step()
    for seen, numbered in ((1, NUMBER), (2, number)):
        start = step.at
        step.at += 1
        # What fills memory has no number in grad mode, either.
        step.inside("cpu_op", "aten::zeros", ADD)
        step.inside("cpu_op", "aten::mm", GEMM, **numbered)
        step.events.append(span("python_function", "nn.Module: MLP_0", start, step.at, **CALL))
        step.at += 1
        if seen == 1:
            step.backward(1, GEMM)
            step.range("Optimizer.step#SGD.step", ADD)
    step.range("Optimizer.zero_grad#SGD.zero_grad")
    return step


WITHOUT_NUMBER = CASES.add(evaluated_module({}).events)
WITH_NUMBER = CASES.add(evaluated_module({**NUMBER, "Sequence number": 2}).events)


def test_a_module_called_outside_of_grad_mode_is_an_evaluation(asked: AskedByRank) -> None:
    step = ["forward", "forward", "backward", "optimizer"]
    for rank, phase in ((WITHOUT_NUMBER, "evaluation"), (WITH_NUMBER, "forward")):
        found = phases(asked, rank)
        assert only_phases(found) == [*step, phase, phase]
        assert {inferred for *_, inferred in found[4:]} == {phase == "evaluation"}
