"""Phases that no range tells: by sequence numbers, by neighbours, by what may be where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import Event, span

import tracekit

Write = Callable[..., Path]

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

    def phases(self, tiny_trace: Write) -> list[tuple[str, str, bool]]:
        """Return name, phase and whether it is inferred, of every device event in order."""
        with tracekit.open(tiny_trace(self.events), cache=False) as trace:
            rows = trace.sql(
                "SELECT name, phase, is_inferred FROM attributed_events ORDER BY ts_ns"
            ).rows
        return [(name, phase, is_inferred) for name, phase, is_inferred in rows]


def only_phases(found: Sequence[tuple[str, str, bool]]) -> list[str]:
    return [phase for _, phase, _ in found]


def test_a_compiled_forward_behind_zero_grad(tiny_trace: Write) -> None:
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
    assert step.phases(tiny_trace) == [
        (ADD, "optimizer", False),
        (GEMM, "forward", False),
        (TRITON, "forward", False),
        (TRITON, "forward", False),
        (GEMM, "backward", False),
        (TRITON, "backward", False),
        (ADD, "optimizer", False),
    ]
    with tracekit.open(tiny_trace(step.events), cache=False) as trace:
        linked = trace.sql(
            "SELECT DISTINCT f.name FROM surroundings AS s"
            " JOIN event AS f ON s.forward_op_id = f.event_id WHERE s.node_id IS NOT NULL"
        ).rows
    assert linked == [("CompiledFunction",)]


@pytest.mark.parametrize("names", [(GEMM, TRITON), (TRITON, ADD)], ids=["gemm", "elementwise"])
@pytest.mark.parametrize("zeroed", [(), (ADD,)], ids=["to None", "to zero"])
def test_what_runs_between_zero_grad_and_backward_is_forward(
    tiny_trace: Write, names: tuple[str, ...], zeroed: tuple[str, ...]
) -> None:
    """No number tells it: a region that an old compiler wrote. Gradients may be set to None."""
    step = Step()
    step.range("Optimizer.step#SGD.step", ADD)
    step.range("Optimizer.zero_grad#SGD.zero_grad", *zeroed)
    step.inside("cpu_op", "Torch-Compiled Region", *names)
    step.backward(27, GEMM)
    found = step.phases(tiny_trace)[1 + len(zeroed) : -1]
    assert found == [(name, "forward", True) for name in names]


def test_a_gemm_is_no_optimizer(tiny_trace: Write) -> None:
    """Behind backward without a range: an optimizer by its kernels, else nobody knows."""
    for names, phase in (((ADD, ADD), "optimizer"), ((ADD, GEMM), "other")):
        step = Step()
        step.inside("cpu_op", "aten::mm", GEMM, **{"Sequence number": 1, "Fwd thread id": 0})
        step.backward(1, GEMM)
        step.work(*names)
        step.inside("cpu_op", "aten::mm", GEMM, **{"Sequence number": 2, "Fwd thread id": 0})
        step.backward(2, GEMM)
        found = step.phases(tiny_trace)
        assert only_phases(found) == ["forward", "backward", phase, phase, "forward", "backward"]
        assert [is_inferred for *_, is_inferred in found[2:4]] == [phase != "other"] * 2


def test_a_model_between_two_backward_passes_is_no_backward(tiny_trace: Write) -> None:
    """On a thread of autograd it is; on another one nobody knows."""
    for tid, phase in ((2, "backward"), (1, "other")):
        step = Step()
        step.inside("cpu_op", "aten::mm", GEMM, **{"Sequence number": 1, "Fwd thread id": 0})
        step.backward(1, GEMM)
        step.work(ADD, GEMM, tid=tid)
        step.backward(1, GEMM)
        found = only_phases(step.phases(tiny_trace))
        assert found == ["forward", "backward", phase, phase, "backward"]


def test_behind_the_optimizer_only_what_an_optimizer_does(tiny_trace: Write) -> None:
    for name, phase in ((ADD, "optimizer"), (GEMM, "other")):
        step = Step()
        step.range("Optimizer.step#SGD.step", ADD)
        step.work(name)
        step.inside("cpu_op", "aten::mm", GEMM, **{"Sequence number": 2, "Fwd thread id": 0})
        step.backward(2, GEMM)
        assert only_phases(step.phases(tiny_trace))[1] == phase


def test_copies_to_the_device_are_data(tiny_trace: Write) -> None:
    """Outside of modules, whatever ran before: an op with a number does not make them forward."""
    copy = "Memcpy HtoD (Pinned -> Device)"
    step = Step()
    step.range("Optimizer.step#SGD.step", ADD)
    step.inside("cpu_op", "aten::add_", ADD, **{"Sequence number": 5, "Fwd thread id": 0})
    step.work(copy)
    step.inside("cpu_op", "aten::to", copy, **{"Sequence number": 6, "Fwd thread id": 0})
    start = step.at
    step.inside("cpu_op", "aten::mm", GEMM, copy, **{"Sequence number": 7, "Fwd thread id": 0})
    step.events.append(span("python_function", "nn.Module: Net_0", start, step.at))
    step.at += 2
    step.backward(7, GEMM, copy)
    step.range("Optimizer.step#SGD.step", copy)
    assert step.phases(tiny_trace)[2:] == [
        (copy, "data", False),
        (copy, "data", False),
        (GEMM, "forward", False),
        (copy, "forward", False),
        (GEMM, "backward", False),
        (copy, "backward", False),
        (copy, "optimizer", False),
    ]
    with tracekit.open(tiny_trace(step.events), cache=False) as trace:
        rows = {
            (row["phase"], row["module_path"]): row["kernel_count"]
            for row in trace.query("modules").to_dicts()
        }
    assert rows["data", "(data loading)"] == 2
    assert [path for phase, path in rows if phase == "data"] == ["(data loading)"]
    assert not [phase for phase, path in rows if path == "(data loading)" and phase != "data"]


def test_health_warns_of_what_is_inferred(tiny_trace: Write) -> None:
    """A quarter of the device time may come from neighbours; beyond that health warns."""
    severities = {}
    for count in (1, 2):
        step = Step()
        step.inside("cpu_op", "aten::mm", GEMM, GEMM, **{"Sequence number": 1, "Fwd thread id": 0})
        step.backward(1, GEMM)
        step.work(*[ADD] * count)
        with tracekit.open(tiny_trace(step.events), cache=False) as trace:
            (row,) = (
                row for row in trace.health().to_dicts() if row["metric"] == "inferred_device_time"
            )
        severities[row["value"]] = row["severity"]
    assert severities == {25.0: "note", 40.0: "warn"}
