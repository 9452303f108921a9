"""`--stage pretrain`: every weight is trained, or with Q all but the 4-bit ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from .spec import TrainingSpec


def prepare(
    model: torch.nn.Module, spec: TrainingSpec, compute_dtype: torch.dtype, device: torch.device
) -> torch.nn.Module:
    """Make a model ready to be pre-trained."""
    if "Q" in spec.opt:
        from .quantization import quantize_linear_layers

        quantize_linear_layers(model, compute_dtype, device)
    return model
