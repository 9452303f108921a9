"""Collectives across all ranks with torch.distributed.

As in nccl-tests, the message size is the size of a rank's buffer for all-reduce, reduce, and
broadcast, of its output for all-gather, of its input for reduce-scatter, and of all its data for
all-to-all. Point-to-point transfers form a ring. Buffers contain zeros, so that sums stay finite.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .clock import Call
from .gemm import TORCH_NAMES
from .point import Point, UnsupportedError

if TYPE_CHECKING:
    import torch

OPS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "reduce",
    "broadcast",
    "all_to_all",
    "send_recv",
)
_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
DTYPES = tuple(_BYTES)


def total_bytes(size_bytes: int, group_size: int, dtype: str) -> int:
    unit = _BYTES[dtype] * group_size
    return max(size_bytes // unit, 1) * unit


@contextlib.contextmanager
def prepared(point: Point, device: torch.device) -> Iterator[Call]:
    import torch

    assert point.message_bytes is not None
    assert point.group_size is not None
    dtype = point.dtype or "fp32"
    count = point.message_bytes // _BYTES[dtype]

    def zeros(size: int) -> torch.Tensor:
        return torch.zeros(size, dtype=getattr(torch, TORCH_NAMES[dtype]), device=device)

    yield call_of(point.op, zeros, count, count // point.group_size)


def call_of(op: str, zeros: Callable[[int], torch.Tensor], count: int, part_count: int) -> Call:
    """Return the call of a collective on `count` elements, `part_count` per rank."""
    import torch.distributed as dist

    whole = zeros(count)
    if op == "all_reduce":
        return lambda: dist.all_reduce(whole)
    if op == "reduce":
        return lambda: dist.reduce(whole, 0)
    if op == "broadcast":
        return lambda: dist.broadcast(whole, 0)
    if op == "all_gather":
        gather, part = _newest("all_gather_single", "all_gather_into_tensor"), zeros(part_count)
        return lambda: gather(whole, part)
    if op == "reduce_scatter":
        scatter, part = _newest("reduce_scatter_single", "reduce_scatter_tensor"), zeros(part_count)
        return lambda: scatter(part, whole)
    received = zeros(count)
    if op == "all_to_all":
        return lambda: dist.all_to_all_single(received, whole)
    rank, group_size = dist.get_rank(), dist.get_world_size()
    if group_size == 1:
        raise UnsupportedError("send/recv needs more than one rank")
    operations = [
        dist.P2POp(dist.isend, whole, (rank + 1) % group_size),
        dist.P2POp(dist.irecv, received, (rank - 1) % group_size),
    ]

    def send_recv() -> None:
        for work in dist.batch_isend_irecv(operations):
            work.wait()

    return send_recv


def _newest(*names: str) -> Callable[..., Any]:
    import torch.distributed as dist

    for name in names:
        if hasattr(dist, name):
            return getattr(dist, name)
    raise UnsupportedError(f"this torch version has no {names[-1]}")


class Group:
    """The ranks that measure together. They exchange figures in device memory, as NCCL requires."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def largest(self, own: Sequence[float]) -> Sequence[float]:
        import torch
        import torch.distributed as dist

        # float64 represents several days in nanoseconds exactly.
        numbers = torch.tensor(list(own), dtype=torch.float64, device=self._device)
        dist.all_reduce(numbers, op=dist.ReduceOp.MAX)
        return numbers.tolist()

    def wait(self) -> None:
        self.largest((0.0,))
