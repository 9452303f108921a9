"""Top-k sparsification: sends only the elements of largest magnitude.

Aji and Heafield, "Sparse Communication for Distributed Gradient Descent", EMNLP 2017, with the
error feedback of Stich et al., "Sparsified SGD with Memory", NeurIPS 2018: unsent values are added
to the next gradient. The ranks choose different elements, so messages cannot be summed in transit:
each rank receives all of them (all-gather) and averages them.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tracekit.errors import UsageError

from ._hook import BucketHook, Codec, Compression, Received


class Sparsifier(Codec):
    """The codec of Top-k: indices and values, selected per parameter.

    The residual has at least single precision: in bf16 a small gradient would be lost next to a
    large residual instead of adding up.

    `density` is the fraction of elements to send, above 0 and up to 1; at least one is sent.
    """

    is_summable = False

    def __init__(self, density: float) -> None:
        self._density = density
        self._residuals: dict[torch.Tensor, torch.Tensor] = {}

    def encode(self, parameter: torch.Tensor, gradient: torch.Tensor) -> list[torch.Tensor]:
        """Return the indices and values of the largest elements of gradient plus residual."""
        flat = gradient.reshape(-1)
        residual = self._residuals.get(parameter)
        if residual is None:
            dtype = torch.promote_types(gradient.dtype, torch.float32)
            residual = self._residuals[parameter] = torch.zeros_like(flat, dtype=dtype)
        residual += flat
        count = math.ceil(self._density * flat.numel())
        indices = residual.abs().topk(count, sorted=False).indices
        values = residual[indices].to(gradient.dtype)
        # Subtracting instead of zeroing keeps the rounding error, which is sent later.
        residual[indices] -= values.to(residual.dtype)
        is_short = flat.numel() <= torch.iinfo(torch.int32).max
        return [indices.to(torch.int32) if is_short else indices, values]

    def decode(self, parameter: torch.Tensor, gradient: torch.Tensor, received: Received) -> None:
        """Write the mean of the ranks' sparse gradients, added in rank order."""
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
