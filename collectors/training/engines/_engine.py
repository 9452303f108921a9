"""Interface of training engines.

An engine module has `ENGINE`, a subclass of `Engine` that takes a model, the spec, and the device,
and `parameter_dtype(spec)`; engines that create their own models define `build` instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from ..spec import TrainingSpec

WEIGHT_DECAY = 0.0


class Engine(ABC):
    """A framework that trains a model.

    The trace contains the submodule names of `module`. `needs_all_threads` means that the engine
    also computes on threads that a profile of the calling thread misses.
    """

    needs_all_threads = False
    _optimizer: torch.optim.Optimizer

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.notes: list[str] = []

    @abstractmethod
    def loss(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Run the forward pass and return the loss."""

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()

    def optimize(self) -> None:
        self._optimizer.step()
        self._optimizer.zero_grad()

    def report(self) -> dict[str, Any]:
        return {}


def trained(parameters: Iterable[torch.nn.Parameter]) -> list[torch.nn.Parameter]:
    return [parameter for parameter in parameters if parameter.requires_grad]


def adamw(model: torch.nn.Module, spec: TrainingSpec) -> torch.optim.Optimizer:
    if spec.opt.adapter == "LFA":
        from ..methods import lora_fa_optimizer

        return lora_fa_optimizer(model, spec)
    import torch

    return torch.optim.AdamW(
        trained(model.parameters()), lr=spec.learning_rate, weight_decay=WEIGHT_DECAY, fused=True
    )
