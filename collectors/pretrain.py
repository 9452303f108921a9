"""`--stage pretrain`: every weight is trained, or with Q all but the 4-bit ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from .training_spec import TrainingSpec


def run(values: Mapping[str, Any], command: list[str], echo: Callable[[str], None]) -> Path:
    """Pre-train with random tokens under the profiler and return the run folder."""
    from .training_run import run_training

    return run_training(values, command, echo)


def prepare(
    model: torch.nn.Module, spec: TrainingSpec, compute_dtype: torch.dtype, device: torch.device
) -> torch.nn.Module:
    """Make a model ready to be pre-trained."""
    if "Q" in spec.opt:
        from .quantization import quantize_linear_layers

        quantize_linear_layers(model, compute_dtype, device)
    return model
