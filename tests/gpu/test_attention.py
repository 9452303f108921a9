"""The kernels of each attention backend of torch, and the class that tracekit gives them."""

import warnings

import pytest
from devices import each

import tracekit

_BACKENDS = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")


@each("backend", _BACKENDS, on_cpu=["FLASH_ATTENTION", "MATH"])
def test_kernels_of_attention_have_their_class(backend, trial):
    """Forward and backward exist, every kernel has a class, and the fused kernel is attention."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    from tracekit.collectors import ranges

    query, key, value = (
        torch.randn(2, 8, 256, 64, device=trial.device, dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    )

    def step():
        with sdpa_kernel(getattr(SDPBackend, backend)):
            with ranges.phase("forward"):
                output = scaled_dot_product_attention(query, key, value, is_causal=True)
            with ranges.phase("backward"):
                output.backward(torch.ones_like(output))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            step()
        except RuntimeError as error:
            pytest.skip("; ".join([str(error), *(str(one.message)[:120] for one in caught[:3])]))
    with tracekit.open(trial.profile(step, warmup=1, active=2), cache=False) as trace:
        kernels = trace.query("kernels", limit=0).to_dicts()
        phases = {row["phase"] for row in trace.query("phases").to_dicts()}
    classes = {}
    for row in kernels:
        classes.setdefault(row["class"], []).append(row["name"][:120])
    trial.figures(kernels_by_class=classes)
    trial.claim("both phases are there", {"forward", "backward"} <= phases, phases)
    trial.claim("no kernel is without class", "other" not in classes, classes.get("other"))
    if backend != "MATH":
        trial.claim("its kernels are attention", "attention" in classes, list(classes))
