"""The kernels of each attention backend of torch, and the class that tracekit gives them."""

from __future__ import annotations

import warnings

import tracekit
from evidence._records import Record, SkippedError
from evidence._setting import Setting

_BACKENDS = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")


def run(setting: Setting, record: Record) -> None:
    """Profile attention, forward and backward, by each backend."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    from tracekit.collectors import ranges
    from tracekit.collectors.profiler.profile import Profile

    device = "cuda" if setting.host.has_cuda else "cpu"
    for name in _BACKENDS:
        with record.case(name) as case:
            query, key, value = (
                torch.randn(2, 8, 256, 64, device=device, dtype=torch.bfloat16, requires_grad=True)
                for _ in range(3)
            )
            path = setting.work_folder / f"{name}.json.gz"
            with Profile(path, {"rank": 0, "world_size": 1}, warmup=1, active=2) as profile:
                for number in range(profile.step_count):
                    with ranges.step(number), sdpa_kernel(getattr(SDPBackend, name)):
                        with warnings.catch_warnings(record=True) as caught:
                            warnings.simplefilter("always")
                            try:
                                with ranges.phase("forward"):
                                    output = scaled_dot_product_attention(
                                        query, key, value, is_causal=True
                                    )
                            except RuntimeError as error:
                                said = "; ".join(str(one.message)[:120] for one in caught[:3])
                                raise SkippedError(f"{error}: {said}") from error
                        with ranges.phase("backward"):
                            output.backward(torch.ones_like(output))
                    profile.step()
            with tracekit.open(path, cache=False) as trace:
                kernels = trace.query("kernels", limit=0).to_dicts()
                phases = {row["phase"] for row in trace.query("phases").to_dicts()}
            classes: dict[str, list[str]] = {}
            for row in kernels:
                classes.setdefault(row["class"], []).append(row["name"][:120])
            case.figure(kernels_by_class=classes)
            case.claim("both phases are there", {"forward", "backward"} <= phases, phases)
            case.claim("no kernel is without class", "other" not in classes, classes.get("other"))
            if name != "MATH":
                case.claim("its kernels are attention", "attention" in classes, list(classes))
