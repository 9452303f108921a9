"""What the training loop asks of an engine.

An engine module has `create(model, spec, device)`, which returns an `Engine`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    from ..spec import TrainingSpec

WEIGHT_DECAY = 0.0


class Engine(Protocol):
    """A framework that trains a model.

    Attributes:
        module: the module whose qualified names the trace shows.
        notes: what a reader of the manifest should know.
        needs_all_threads: whether it computes on threads that a plain profile does not see.
    """

    module: torch.nn.Module
    notes: list[str]
    needs_all_threads: bool

    def loss(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Run the forward pass and return the loss."""

    def backward(self, loss: torch.Tensor) -> None:
        """Run the backward pass, with the communication that belongs to it."""

    def optimize(self) -> None:
        """Step the optimizer and drop the gradients."""

    def report(self) -> dict[str, Any]:
        """Return what the manifest is to keep of the engine."""


def trained(parameters: Iterable[torch.nn.Parameter]) -> list[torch.nn.Parameter]:
    """Return the parameters that the optimizer is to step."""
    return [parameter for parameter in parameters if parameter.requires_grad]


def adamw(model: torch.nn.Module, spec: TrainingSpec) -> torch.optim.Optimizer:
    """Return AdamW over the trained parameters, or LoRA-FA's optimizer where that is asked for."""
    if spec.opt.adapter == "LFA":
        from ..finetune import lora_fa_optimizer

        return lora_fa_optimizer(model, spec)
    import torch

    return torch.optim.AdamW(
        trained(model.parameters()), lr=spec.learning_rate, weight_decay=WEIGHT_DECAY, fused=True
    )
