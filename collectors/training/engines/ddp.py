"""Data-parallel training with torch's DDP, and methods based on it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from ..spec import TrainingSpec
from ._engine import Engine, adamw


def parameter_dtype(spec: TrainingSpec) -> torch.dtype:
    """Return the type of the weights: fp32 even for fp16, because fp16 updates would underflow."""
    return torch.bfloat16 if spec.precision == "bf16" else torch.float32


class DdpEngine(Engine):
    def __init__(self, model: torch.nn.Module, spec: TrainingSpec, device: torch.device) -> None:
        super().__init__(model)
        is_half = spec.precision == "fp16"
        self._autocast = (
            torch.autocast(device.type, torch.float16) if is_half else contextlib.nullcontext()
        )
        # Must precede DDP, which reads `requires_grad`: LoRA-FA's optimizer freezes parameters.
        self._optimizer = adamw(model, spec)
        self._scaler = torch.amp.GradScaler(device.type, enabled=is_half)
        self.ddp = DistributedDataParallel(
            model,
            device_ids=[device.index] if device.type == "cuda" else None,
            gradient_as_bucket_view=True,
            broadcast_buffers=False,  # a decoder's buffers are constants (rotary frequencies)
        )
        self._compression: Any = None
        if spec.opt.compression:
            from .. import compression

            self._compression = compression.install(
                self.ddp, spec.opt.compression, **spec.compression_options
            )
        self.needs_all_threads = bool(self._compression and self._compression.needs_all_threads)

    def loss(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        with self._autocast:
            return self.ddp(**batch).loss

    def backward(self, loss: torch.Tensor) -> None:
        self._scaler.scale(loss).backward()

    def optimize(self) -> None:
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad()

    def report(self) -> dict[str, Any]:
        return {"compression": self._compression.report()} if self._compression else {}


ENGINE = DdpEngine
