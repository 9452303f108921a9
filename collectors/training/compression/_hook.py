"""Base of gradient compression hooks: splits, sends, and reassembles buckets.

DDP passes buckets while the backward pass is running. `BucketHook` encodes and sends each bucket
immediately, and decodes all buckets at the end of the backward pass, on its thread and stream.
torch's PowerSGD decodes in callbacks of the collective instead. These run on gloo's threads, which
profiles do not include, and on CUDA side streams, which the caching allocator does not track.

The work of a method is inside the ranges `tk/part/compress` and `tk/part/decompress`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from msgspec import Struct

from tracekit.errors import UsageError

from ...ranges import part

COMPRESS = "compress"
DECOMPRESS = "decompress"
_ALIGNMENT_BYTES = 8

# torch 2.13 renamed this function and warns about the old name.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


Received = Sequence[list[torch.Tensor]]
"""Messages of all ranks, in rank order; for a summable codec, only their mean."""


class Codec(ABC):
    """Encodes the gradient matrix of a parameter, with state per parameter.

    State per bucket would not work, because DDP rebuilds its buckets after the first step.
    """

    is_summable: bool
    """Whether the sum of the messages is enough to decode (all-reduce); else, all messages are
    needed."""

    def takes(self, gradient: torch.Tensor) -> bool:
        return gradient.dim() >= 2

    @abstractmethod
    def encode(self, parameter: torch.Tensor, gradient: torch.Tensor) -> list[torch.Tensor]:
        """Return this rank's message for a parameter, and store the residual.

        A summable codec returns one tensor of the gradient's type. Shapes and types depend only on
        the gradient, so they are the same on every rank.
        """

    @abstractmethod
    def decode(self, parameter: torch.Tensor, gradient: torch.Tensor, received: Received) -> None:
        """Overwrite this rank's gradient with the gradient that all ranks decode."""


class Compression(Struct):
    """Properties of a hook, and the bytes that this rank has sent.

    `sent_bytes` is the size of the messages, and `dense_bytes` their size without compression. With
    all-gather, a rank receives the messages of all other ranks; with all-reduce, the size of one
    message.
    """

    method: str
    options: dict[str, Any]
    needs_all_threads: bool = False
    """Whether the method also uses threads that a profile of the calling thread misses."""
    step_count: int = 0
    dense_bytes: int = 0
    sent_bytes: int = 0
    sent_element_count: int = 0
    _refresh: Callable[[Compression], None] | None = None

    def report(self) -> dict[str, Any]:
        if self._refresh is not None:
            self._refresh(self)
        steps = max(self.step_count, 1)
        return {
            "method": self.method,
            **self.options,
            "step_count": self.step_count,
            "dense_bytes_per_step": self.dense_bytes // steps,
            "sent_bytes_per_step": self.sent_bytes // steps,
            "sent_element_count_per_step": self.sent_element_count // steps,
        }


class _Sent(Struct):
    finish: Callable[[], torch.Tensor]
    future: Any


class BucketHook:
    def __init__(self, codec: Codec, compression: Compression, process_group: Any) -> None:
        self._codec = codec
        self._compression = compression
        self._group = process_group
        self._world_size = dist.get_world_size(process_group)
        self._pending: list[_Sent] = []
        self._called_back_pass = -1

    def install(self, ddp_model: Any) -> Compression:
        ddp_model.register_comm_hook(self, lambda state, bucket: state.send(bucket))
        return self._compression

    def send(self, bucket: Any) -> Any:
        buffer = bucket.buffer()
        pairs = list(zip(bucket.parameters(), bucket.gradients(), strict=True))
        finish = self._start(buffer, pairs)
        self._compression.dense_bytes += buffer.nbytes
        self._compression.step_count += bucket.is_last()
        future = torch.futures.Future(devices=[buffer.device] if buffer.is_cuda else [])
        self._pending.append(_Sent(finish, future))
        if torch._C._current_autograd_node() is None:
            # In the first step of a static graph, DDP calls the hook after the backward pass.
            self._finish_all()
        elif (backward_pass := torch._C._current_graph_task_id()) != self._called_back_pass:
            # Reentrant checkpointing nests backward passes, and DDP may finish in any of them.
            self._called_back_pass = backward_pass
            torch.autograd.Variable._execution_engine.queue_callback(self._finish_all)
        return future

    def _finish_all(self) -> None:
        """Decode all sent buckets; DDP's own callback, which waits for them, runs afterwards."""
        pending, self._pending = self._pending, []
        for sent in pending:
            sent.future.set_result(sent.finish())

    def _start(
        self, buffer: torch.Tensor, gradients: list[tuple[torch.Tensor, torch.Tensor]]
    ) -> Callable[[], torch.Tensor]:
        codec = self._codec
        with part(COMPRESS):
            coded = [pair for pair in gradients if codec.takes(pair[1])]
            exact = [gradient for _, gradient in gradients if not codec.takes(gradient)]
            messages = [codec.encode(parameter, gradient) for parameter, gradient in coded]
            summed = list(exact)
            if codec.is_summable:
                # Use one message for both, because a small collective is as slow as a large one.
                summed += [tensor for message in messages for tensor in message]
            mean = torch.cat([tensor.reshape(-1) for tensor in summed]) if summed else None
            if mean is not None:
                mean.div_(self._world_size)
            own = None if codec.is_summable or not messages else pack(messages)
            gathered = None if own is None else own.new_empty(self._world_size * own.numel())
        works = []
        if mean is not None:
            works.append(dist.all_reduce(mean, group=self._group, async_op=True))
            self._count(mean.nbytes, mean.numel())
        if own is not None:
            works.append(_all_gather(gathered, own, group=self._group, async_op=True))
            self._count(own.nbytes, sum(t.numel() for message in messages for t in message))

        def finish() -> torch.Tensor:
            for work in works:
                work.wait()
            with part(DECOMPRESS):
                reduced = [] if mean is None else unflatten(mean, summed)
                for gradient, value in zip(exact, reduced, strict=False):
                    gradient.copy_(value)
                received = [[[value]] for value in reduced[len(exact) :]]
                if gathered is not None:
                    by_rank = [unpack(row, messages) for row in gathered.view(self._world_size, -1)]
                    received = [list(of_parameter) for of_parameter in zip(*by_rank, strict=True)]
                for (parameter, gradient), values in zip(coded, received, strict=True):
                    codec.decode(parameter, gradient, values)
            return buffer

        return finish

    def _count(self, sent_bytes: int, element_count: int) -> None:
        self._compression.sent_bytes += sent_bytes
        self._compression.sent_element_count += element_count


def check_rank(rank: int) -> None:
    if rank < 1:
        raise UsageError(f"the rank of a factor must be at least 1, not {rank}")


def unflatten(flat: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    parts = flat.split([tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]


def pack(messages: Sequence[Sequence[torch.Tensor]]) -> torch.Tensor:
    """Pack tensors of any types into one aligned tensor of bytes."""
    tensors = [tensor for message in messages for tensor in message]
    packed = tensors[0].new_zeros(sum(map(_padded_bytes, tensors)), dtype=torch.uint8)
    for place, tensor in zip(_places(packed, tensors), tensors, strict=True):
        place.copy_(tensor.reshape(-1).view(torch.uint8))
    return packed


def unpack(
    packed: torch.Tensor, like: Sequence[Sequence[torch.Tensor]]
) -> list[list[torch.Tensor]]:
    places = iter(_places(packed, [tensor for message in like for tensor in message]))
    return [
        [next(places).view(tensor.dtype).view(tensor.shape) for tensor in message]
        for message in like
    ]


def _places(packed: torch.Tensor, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    padded = packed.split([_padded_bytes(tensor) for tensor in tensors])
    return [place[: tensor.nbytes] for place, tensor in zip(padded, tensors, strict=True)]


def _padded_bytes(tensor: torch.Tensor) -> int:
    return -(-tensor.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
