"""Collectives among all ranks, by torch.distributed.

Message bytes are those that nccl-tests counts: of an all-reduce, a reduce, a broadcast and a send
the buffer of a rank; of an all-gather what comes out on each rank; of a reduce-scatter what goes in
on each; of an all-to-all what each rank has in all. Point to point is nccl-tests' ring: each rank
sends to the next one and receives from the one before at the same time.

Buffers hold zeros, whose sum stays finite however often it is taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .clock import Call
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
_TORCH_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def whole_bytes(size_bytes: int, group_size: int, dtype: str) -> int:
    """Return the largest message of at most a size that all ranks can have an equal part of."""
    unit = _BYTES[dtype] * group_size
    return max(size_bytes // unit, 1) * unit


@contextlib.contextmanager
def prepared(point: Point, device: torch.device) -> Iterator[Call]:
    """Give the call of a point, which all ranks make alike.

    Raises:
        UnsupportedError: torch has no such collective here.
    """
    import torch

    assert point.message_bytes is not None
    assert point.group_size is not None
    dtype = point.dtype or "fp32"
    count = point.message_bytes // _BYTES[dtype]
    part_count = count // point.group_size

    def zeros(size: int) -> torch.Tensor:
        return torch.zeros(size, dtype=getattr(torch, _TORCH_NAMES[dtype]), device=device)

    yield _MAKERS[point.op](zeros, count, part_count)


Zeros = Callable[[int], "torch.Tensor"]


def _all_reduce(zeros: Zeros, count: int, part_count: int) -> Call:
    import torch.distributed as dist

    del part_count
    whole = zeros(count)
    return lambda: dist.all_reduce(whole)


def _all_gather(zeros: Zeros, count: int, part_count: int) -> Call:
    gather = _newest("all_gather_single", "all_gather_into_tensor")
    whole, part = zeros(count), zeros(part_count)
    return lambda: gather(whole, part)


def _reduce_scatter(zeros: Zeros, count: int, part_count: int) -> Call:
    scatter = _newest("reduce_scatter_single", "reduce_scatter_tensor")
    whole, part = zeros(count), zeros(part_count)
    return lambda: scatter(part, whole)


def _reduce(zeros: Zeros, count: int, part_count: int) -> Call:
    import torch.distributed as dist

    del part_count
    whole = zeros(count)
    return lambda: dist.reduce(whole, 0)


def _broadcast(zeros: Zeros, count: int, part_count: int) -> Call:
    import torch.distributed as dist

    del part_count
    whole = zeros(count)
    return lambda: dist.broadcast(whole, 0)


def _all_to_all(zeros: Zeros, count: int, part_count: int) -> Call:
    import torch.distributed as dist

    del part_count
    given, taken = zeros(count), zeros(count)
    return lambda: dist.all_to_all_single(taken, given)


def _send_recv(zeros: Zeros, count: int, part_count: int) -> Call:
    import torch.distributed as dist

    del part_count
    rank, group_size = dist.get_rank(), dist.get_world_size()
    if group_size == 1:
        raise UnsupportedError("one rank has nobody to send to")
    given, taken = zeros(count), zeros(count)
    operations = [
        dist.P2POp(dist.isend, given, (rank + 1) % group_size),
        dist.P2POp(dist.irecv, taken, (rank - 1) % group_size),
    ]

    def call() -> None:
        for work in dist.batch_isend_irecv(operations):
            work.wait()

    return call


_MAKERS = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "reduce": _reduce,
    "broadcast": _broadcast,
    "all_to_all": _all_to_all,
    "send_recv": _send_recv,
}


def _newest(*names: str) -> Callable[..., Any]:
    """Return the first of several functions of torch.distributed that it has."""
    import torch.distributed as dist

    for name in names:
        if hasattr(dist, name):
            return getattr(dist, name)
    raise UnsupportedError(f"this torch has no {names[-1]}")


class Group:
    """The ranks that measure together.

    Args:
        device: where the figures that they exchange lie: NCCL takes them on a GPU only.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def largest(self, own: Sequence[float]) -> Sequence[float]:
        """Return, of numbers of every rank, the largest of each."""
        import torch
        import torch.distributed as dist

        # float64 holds nanoseconds of days exactly.
        numbers = torch.tensor(list(own), dtype=torch.float64, device=self._device)
        dist.all_reduce(numbers, op=dist.ReduceOp.MAX)
        return numbers.tolist()

    def wait(self) -> None:
        """Wait until every rank is here."""
        self.largest((0.0,))
