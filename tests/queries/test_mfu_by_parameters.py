"""Analysis mfu where the shapes do not tell: the parameters of the run's model do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import span

import tracekit

MakeRun = Callable[..., Path]

A100 = [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]


EVENTS = [
    span("user_annotation", "ProfilerStep#1", 0, 100),
    span("cuda_runtime", "cudaLaunchKernel", 5, 6, correlation=1),
    span("kernel", "sm80_xmma_gemm_bf16", 10, 110, correlation=1, device=0, stream=7),
]


def mfu(folder: Path, **top_level: Any) -> dict[str, Any]:
    """The row of a run whose trace has no ops, so that no shapes are known."""
    text = json.dumps({**top_level, "traceEvents": EVENTS})
    (folder / "rank0.json").write_text(text)
    with tracekit.open(folder, cache=False) as trace:
        (row,) = trace.query("mfu").to_dicts()
    return row


def about(**model: Any) -> dict[str, Any]:
    given = {"name": "m", "parameter_count": 1000, **model}
    return {"model": given, "batch_size": 2, "sequence_length": 50, "precision": "bf16"}


def test_all_parameters_are_trained(make_run: MakeRun) -> None:
    """6 × 1,000 parameters × 100 tokens in a step of 100 µs, on a device of 312e12/s."""
    row = mfu(make_run("a", **about()), deviceProperties=A100)
    assert (row["source"], row["flops"], row["dtype"]) == ("parameters", 600_000, "bf16")
    assert (row["step"], row["step_ns"]) == (1, 100_000)
    assert row["mfu_pct"] == pytest.approx(100 * 600_000 / 312e12 / 100e-6)
    assert (row["hfu_pct"], row["recompute_flops"], row["reason"]) == (None, None, None)


def test_of_an_adapter_only_its_own_gradients(make_run: MakeRun) -> None:
    """4 × 1,000 + 2 × 10 per token; two ranks share every layer."""
    members = about(trainable_parameter_count=10) | {"stage": "finetune"}
    parallel = {"parallel": {"world_size": 2, "tensor_size": 2}}
    row = mfu(make_run("a", **members, **parallel), deviceProperties=A100)
    assert row["flops"] == (4 * 1000 + 2 * 10) * 100 // 2


def test_of_the_run_by_a_step_without_the_profiler(make_run: MakeRun) -> None:
    """The kernel of 100 µs fills the recorded step; a step below that is of another program."""
    folder = make_run("a", **about())
    text = json.dumps({"deviceProperties": A100, "traceEvents": EVENTS})
    (folder / "rank0.json").write_text(text)
    found = []
    for plain_ns in (100_000, 200_000, 50_000):
        with tracekit.open(folder, cache=False) as trace:
            trace.assume_plain_step(plain_ns)
            (row,) = trace.query("mfu").to_dicts()
        found.append(row["run_mfu_pct"])
    assert found == [row["mfu_pct"], pytest.approx(row["mfu_pct"] / 2), None]


def test_without_a_peak_there_is_a_rate(make_run: MakeRun) -> None:
    row = mfu(make_run("a", **about()))
    assert (row["source"], row["flops"], row["mfu_pct"]) == ("parameters", 600_000, None)
    assert row["flop_per_s"] == pytest.approx(6e9)
    assert row["reason"] == "the peak of this device for that type is not known"


@pytest.mark.parametrize("members", [{"stage": "serve"}, {"batch_size": None}, {"model": None}])
def test_it_is_refused_where_run_json_does_not_tell(
    make_run: MakeRun, members: dict[str, Any]
) -> None:
    row = mfu(make_run("a", **(about() | members)), deviceProperties=A100)
    assert (row["source"], row["flops"], row["mfu_pct"]) == (None, None, None)
    assert row["reason"] == "the operations of its ops are not known: no shapes, or no ops"


def test_the_backward_of_cudnn_attention_is_counted(tiny_trace: Callable[..., Path]) -> None:
    """Two and a half times the forward pass, half of it where it is causal."""
    shape = [2, 16, 1024, 128]
    dims = [*([shape] * 5), [2, 16, 1024, 1], *([[]] * 10)]
    concrete = [*([""] * 11), "1024", "1024", "0.", "True", ""]
    events = [
        span("user_annotation", "ProfilerStep#1", 0, 200),
        span(
            "cpu_op",
            "aten::_cudnn_attention_backward",
            1,
            9,
            **{
                "Input Dims": dims,
                "Input type": ["c10::BFloat16"] * 6 + [""] * 10,
                "Concrete Inputs": concrete,
            },
        ),
        span("cuda_runtime", "cudaLaunchKernel", 2, 3, correlation=1),
        span("kernel", "cudnn_sdpa_bprop", 10, 110, correlation=1, device=0, stream=7),
    ]
    path = tiny_trace(events, deviceProperties=[{"id": 0, "name": "NVIDIA H100 80GB HBM3"}])
    with tracekit.open(path, cache=False) as trace:
        (row,) = trace.query("mfu").to_dicts()
    pairs = 2 * 16 * 1024 * 1025 // 2
    assert row["covered_pct"] == pytest.approx(100)
    assert row["flops"] == 2.5 * 4 * pairs * 128
