"""Top-k sparsification: sends only the elements of largest magnitude.

Aji and Heafield, EMNLP 2017, with the error feedback of Stich et al., NeurIPS 2018: unsent values
are added to the next gradient.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tracekit.errors import UsageError

from ._hook import BucketHook, Codec, Compression, Received


class Sparsifier(Codec):
    """The codec of Top-k: indices and values of a fraction of the elements, but at least one.

    The residual has at least single precision: in bf16, small gradients added to a large residual
    would be lost in rounding.
    """

    is_summable = False

    def __init__(self, density: float) -> None:
        self._density = density
        self._residuals: dict[torch.Tensor, torch.Tensor] = {}

    def encode(self, parameter: torch.Tensor, gradient: torch.Tensor) -> list[torch.Tensor]:
        flat = gradient.reshape(-1)
        residual = self._residuals.get(parameter)
        if residual is None:
            dtype = torch.promote_types(gradient.dtype, torch.float32)
            residual = self._residuals[parameter] = torch.zeros_like(flat, dtype=dtype)
        residual += flat
        count = math.ceil(self._density * flat.numel())
        indices = residual.abs().topk(count, sorted=False).indices
        values = residual[indices].to(gradient.dtype)
        # Subtract instead of zeroing, to keep the rounding error for later messages.
        residual[indices] -= values.to(residual.dtype)
        is_short = flat.numel() <= torch.iinfo(torch.int32).max
        return [indices.to(torch.int32) if is_short else indices, values]

    def decode(self, parameter: torch.Tensor, gradient: torch.Tensor, received: Received) -> None:
        total = torch.zeros_like(self._residuals[parameter])
        for indices, values in received:
            # Indices are unique within a message, so the sum does not depend on their order.
            total[indices.long()] += values.to(total.dtype)
        gradient.copy_(total.div_(len(received)).view(gradient.shape))

    def residual(self, parameter: torch.Tensor) -> torch.Tensor:
        return self._residuals[parameter]


def install(ddp_model: Any, *, density: float = 0.01) -> Compression:
    if not 0 < density <= 1:
        raise UsageError(f"the density must be above 0 and at most 1, not {density}")
    compression = Compression("topk", {"density": density})
    return BucketHook(Sparsifier(density), compression, ddp_model.process_group).install(ddp_model)
