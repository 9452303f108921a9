"""Sharded training with torch's FSDP2 (`fully_shard`)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)

from ..spec import TrainingSpec
from ._engine import Engine, adamw


def parameter_dtype(spec: TrainingSpec) -> torch.dtype:
    """Return the type of the sharded weights; frozen weights would not benefit from fp32."""
    if spec.precision == "bf16" and spec.opt.adapter:
        return torch.bfloat16
    return torch.float32


class Fsdp2Engine(Engine):
    def __init__(self, model: torch.nn.Module, spec: TrainingSpec, device: torch.device) -> None:
        super().__init__(model)
        compute = torch.bfloat16 if spec.precision == "bf16" else torch.float32
        offload = OffloadPolicy()
        if "O" in spec.opt:
            offload = CPUOffloadPolicy(pin_memory=device.type == "cuda")
        options = {
            "mesh": init_device_mesh(device.type, (spec.rank_count,)),
            "reshard_after_forward": spec.opt.zero_stage == 3,
            "mp_policy": MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=compute),
            "offload_policy": offload,
        }
        whole = _unshardable(model, options["mesh"])
        if whole:
            options["ignored_params"] = whole
            self.notes.append(
                f"torch {torch.__version__} does not shard integers: every rank holds the "
                "complete packed 4-bit weights"
            )
        for layer in _layers(model):
            fully_shard(layer, **options)
        fully_shard(model, **options)
        self._optimizer = adamw(model, spec)

    def loss(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return self.module(**batch).loss


ENGINE = Fsdp2Engine


def _unshardable(model: torch.nn.Module, mesh: DeviceMesh) -> set[torch.nn.Parameter]:
    """Return the packed 4-bit weights if this FSDP2 (as of torch 2.11) cannot shard integers."""
    packed = {parameter for parameter in model.parameters() if not parameter.is_floating_point()}
    if not packed:
        return set()
    probe = torch.nn.Module()
    integers = torch.zeros(mesh.size(), dtype=torch.uint8, device=next(iter(packed)).device)
    probe.weight = torch.nn.Parameter(integers, requires_grad=False)
    try:
        fully_shard(probe, mesh=mesh)
    except RuntimeError:
        return packed
    return set()


def _layers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the repeated blocks of a model: its longest module list."""
    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    return list(max(lists, key=len, default=[]))
