"""Power-SGD, as implemented in torch (Vogels et al., NeurIPS 2019)."""

from __future__ import annotations

from typing import Any

from tracekit.errors import UsageError

from ...ranges import part
from ._hook import COMPRESS, Compression, check_rank

# Prevents torch from dividing by zero for a gradient of zeros.
_ORTHOGONALIZATION_EPSILON = 1e-8


def install(ddp_model: Any, *, rank: int = 4, start_step: int = 2) -> Compression:
    """Register torch's Power-SGD hook, which compresses from step `start_step`, counted from 0.

    Callbacks of the collectives compute the second factor and the gradient. With NCCL, they run on
    the caller's thread; with gloo, on gloo's threads, which a profile of the calling thread misses.
    torch does not allow a start before step 2, because the state is per bucket, and DDP rebuilds
    buckets after the first step.
    """
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
        PowerSGDState,
        powerSGD_hook,
    )

    check_rank(rank)
    if start_step < 2:
        raise UsageError(f"Power-SGD starts at step 2 or later, not {start_step}")
    state = PowerSGDState(
        ddp_model.process_group,
        matrix_approximation_rank=rank,
        start_powerSGD_iter=start_step,
        orthogonalization_epsilon=_ORTHOGONALIZATION_EPSILON,
    )
    is_gloo = dist.get_backend(ddp_model.process_group) == "gloo"
    item_bytes = 0

    def hook(state: Any, bucket: Any) -> Any:
        nonlocal item_bytes
        item_bytes = max(item_bytes, bucket.buffer().element_size())
        with part(COMPRESS):
            future = powerSGD_hook(state, bucket)
        if is_gloo:
            # The callbacks start collectives on gloo's threads. Without this wait, ranks could
            # start these and the next bucket's collectives in different orders, but gloo
            # matches collectives by order.
            future.wait()
        return future

    def refresh(compression: Compression) -> None:
        """Copy torch's count, which covers only compressed steps."""
        _, dense_count, sent_count = state.compression_stats()
        compression.step_count = max(0, state.iter - start_step)
        compression.dense_bytes = dense_count * item_bytes
        compression.sent_bytes = sent_count * item_bytes
        compression.sent_element_count = sent_count

    # DDP compares the hook's annotations with classes, but in this module annotations are strings.
    hook.__annotations__ = {}
    ddp_model.register_comm_hook(state, hook)
    return Compression(
        "powersgd",
        {"rank": rank, "start_step": start_step},
        needs_all_threads=is_gloo,
        _refresh=refresh,
    )
