"""Says what a loop trains: its model, its engine, its precision, how its ranks share the work."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import nn

from ..calls.module_paths import class_name, unwrapped
from ..model import models
from ..run.environment import probe
from .parallel_layout import layout_of
from .precision import precision_of
from .report import LoopReport


def describe(model: nn.Module, name: str | None, report: LoopReport) -> None:
    """Note in a report what runs here.

    Args:
        model: the model that is trained, as the loop calls it.
        name: what it is to be called; its class if None.
        report: is filled in; a precision that was seen in calls stays.
    """
    inner = unwrapped(model)
    total, trained = models.parameter_count(model)
    config: Any = getattr(inner, "config", None)
    report.model = {
        "name": name or class_name(inner),
        "model_class": class_name(inner),
        "parameter_count": total,
        "trainable_parameter_count": trained,
        "layer_count": getattr(config, "num_hidden_layers", None),
        "config": config.to_diff_dict() if hasattr(config, "to_diff_dict") else {},
    }
    report.engine = _engine_of(model)
    if report.precision is None:
        report.precision = precision_of(model, inner)
    layout = layout_of(model, report.world_size)
    report.layout = None if layout is None else dataclasses.asdict(layout)
    report.attention_backend = getattr(config, "_attn_implementation", None)
    report.environment = dataclasses.asdict(probe())


def _engine_of(model: nn.Module) -> str:
    """Return what the model is wrapped in, by the name of its class's package or its own."""
    children = dict(model.named_children())
    # Beside DeepSpeed's engine, many a model of reinforcement learning has methods of these names.
    if "module" in children and hasattr(model, "backward") and hasattr(model, "step"):
        return type(model).__module__.partition(".")[0]
    wrapped = getattr(model, "_orig_mod", model)  # of torch.compile
    if isinstance(wrapped, nn.parallel.DistributedDataParallel):
        return "ddp"
    if any(type(module).__mro__[1].__name__ == "FSDPModule" for module in model.modules()):
        return "fsdp2"
    return "fsdp1" if type(wrapped).__name__ == "FullyShardedDataParallel" else "torch"
