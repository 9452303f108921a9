"""Changes that need a GPU: predicted from a trace of A, and measured as B.

Both are measured without the profiler too. A prediction knows A's trace and unprofiled step.
"""

import statistics

import pytest
from devices import each

import tracekit

_STEPS = 20
_ACTIVE = 4


def replayed(trial):
    import torch

    step = trial.training_step(fused=True, capturable=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def attending(trial, backend):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    shape = (4, 32, 1024, 128) if trial.is_cuda else (1, 2, 16, 8)
    query, key, value = (
        torch.randn(shape, device=trial.device, dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    )

    def step():
        with sdpa_kernel(getattr(SDPBackend, backend)):
            for _ in range(4):
                output = scaled_dot_product_attention(query, key, value, is_causal=True)
                output.backward(torch.ones_like(output))

    return step


def multiplied(trial, dtype):
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    size = 4096 if trial.is_cuda else 32
    of = {"device": trial.device, "dtype": getattr(torch, dtype)}
    left, right = torch.randn(size, size, **of), torch.randn(size, size, **of)

    def step():
        for _ in range(8):
            torch.mm(left, right)

    return step


def copied(trial, *, is_pinned):
    import torch

    size = 1 << (26 if trial.is_cuda else 10)
    batch = torch.zeros(size, dtype=torch.uint8, pin_memory=is_pinned and trial.is_cuda)
    square = torch.randn(4096 if trial.is_cuda else 16, device=trial.device).diag()

    def step():
        batch.to(trial.device, non_blocking=is_pinned)
        for _ in range(4):
            torch.mm(square, square)

    return step


PAIRS = {
    "whole-step graph": (lambda t: t.training_step(fused=True), replayed, "graph on"),
    "compile": (
        lambda t: t.training_step(fused=True),
        lambda t: t.training_step(fused=True, compiled=True),
        "compile on",
    ),
    "fused optimizer": (
        lambda t: t.training_step(foreach=False, fused=False),
        lambda t: t.training_step(fused=True),
        "optimizer fused",
    ),
    "fused attention": (
        lambda t: attending(t, "MATH"),
        lambda t: attending(t, "FLASH_ATTENTION"),
        "attention fused",
    ),
    "precision": (
        lambda t: multiplied(t, "float32"),
        lambda t: multiplied(t, "bfloat16"),
        "precision=bf16",
    ),
    "pinned copies": (
        lambda t: copied(t, is_pinned=False),
        lambda t: copied(t, is_pinned=True),
        "class=memcpy_h2d remove",
    ),
}
"""By name: the loop that is recorded, the one that is predicted, and the change."""


def plain_ns(trial, step):
    trial.times_ns(step, 1, calls=3)
    return statistics.median(trial.times_ns(step, 5, calls=_STEPS))


@pytest.mark.alone
@each("name", PAIRS, on_cpu=["fused optimizer"])
def test_a_change_that_is_made(name, trial):
    """The measured gain is in the predicted interval, extended by 5 % of A's step."""
    if "graph" in name and not trial.is_cuda:
        pytest.skip("CUDA graphs need a CUDA device")
    make_base, make_new, change = PAIRS[name]
    base = make_base(trial)
    base_ns = plain_ns(trial, base)
    path = trial.profile(base, warmup=2, active=_ACTIVE)
    true_ns = base_ns - plain_ns(trial, make_new(trial))
    with tracekit.open(path, cache=False) as trace:
        trace.assume_unprofiled_step(round(base_ns))
        try:
            found = trace.predict(change)
        except tracekit.QueryError as error:
            trial.claim("the change is predicted", not trial.is_cuda, str(error))
            return
    ends = [found.before_step_ns * pct / 100 for pct in found.range_pct]
    trial.figures(
        plain_step_ns=base_ns,
        gain_ns=true_ns,
        predicted_gain_ns=None if found.predicted_ns is None else found.gain_ns,
        interval_ns=ends,
        reason=found.reason,
    )
    if trial.is_cuda:
        is_held = ends[0] - 0.05 * base_ns <= true_ns <= ends[1] + 0.05 * base_ns
        trial.claim("the interval holds the gain", is_held, (true_ns, ends))
