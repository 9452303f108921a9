"""Sign-SGD with majority vote: one bit per element.

Bernstein et al., "signSGD: Compressed Optimisation for Non-Convex Problems", ICML 2018; the vote is
scaled by the mean magnitude of the elements, as in Karimireddy et al., ICML 2019, so that the
gradient has its usual size. Error feedback requires a mean of compressed gradients, not a majority.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from ._hook import BucketHook, Codec, Compression, Received

_BITS = 8


class MajorityVote(Codec):
    """The codec of Sign-SGD: eight signs per byte, and the mean magnitude in single precision.

    One bit cannot encode zero, but entire rows of an embedding are zero. So zeros vote + and -
    alternately, by element, rank, and step, and cancel.
    """

    is_summable = False

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._steps: dict[torch.Tensor, int] = {}

    def encode(self, parameter: torch.Tensor, gradient: torch.Tensor) -> list[torch.Tensor]:
        step = self._steps[parameter] = self._steps.get(parameter, -1) + 1
        flat = gradient.reshape(-1)
        scale = flat.abs().mean(dtype=torch.float32).view(1)
        votes = flat > 0
        is_zero = flat == 0
        first = (self._rank + step) % 2
        votes[first::2] |= is_zero[first::2]
        return [pack_bits(votes), scale]

    def decode(self, parameter: torch.Tensor, gradient: torch.Tensor, received: Received) -> None:
        del parameter
        votes = torch.zeros(gradient.numel(), dtype=torch.int16, device=gradient.device)
        scale = torch.zeros(1, dtype=torch.float32, device=gradient.device)
        for bits, rank_scale in received:
            votes += unpack_bits(bits, gradient.numel())
            scale += rank_scale
        majority = (2 * votes - len(received)).sign_()
        scale /= len(received)
        gradient.copy_((majority * scale).view(gradient.shape))


def pack_bits(values: torch.Tensor) -> torch.Tensor:
    """Return booleans as bytes, the first in the lowest bit, zero-padded."""
    padded = torch.nn.functional.pad(values.to(torch.uint8), (0, -values.numel() % _BITS))
    packed = torch.zeros(padded.numel() // _BITS, dtype=torch.uint8, device=values.device)
    for bit, column in enumerate(padded.view(-1, _BITS).unbind(1)):
        packed |= column << bit
    return packed


def unpack_bits(packed: torch.Tensor, count: int) -> torch.Tensor:
    shifts = torch.arange(_BITS, dtype=torch.uint8, device=packed.device)
    return (packed[:, None] >> shifts).bitwise_and_(1).view(-1)[:count]


def install(ddp_model: Any) -> Compression:
    group = ddp_model.process_group
    codec = MajorityVote(dist.get_rank(group))
    return BucketHook(codec, Compression("signsgd", {}), group).install(ddp_model)
