"""How the ranks of a loop share the work, asked of whoever shares it.

Tokens count once for each data-parallel rank: the ranks of a tensor-parallel group are all given
the same ones. Asked are, in this order, Megatron's own groups, DeepSpeed's engine, the device
meshes that FSDP2 and DTensor put parameters on, FSDP1's and DDP's process groups. Where none of
them tells, nobody knows, and figures are of one rank.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True, slots=True)
class Layout:
    """The sizes by which ranks share the work, and who said so; they multiply to the world size."""

    data_size: int
    tensor_size: int
    pipeline_size: int
    source: str


def layout_of(model: nn.Module, world_size: int) -> Layout | None:
    """Return how ranks share the work of a model, or None where that cannot be known.

    Args:
        model: as the loop calls it, in whatever it is wrapped.
        world_size: how many ranks there are.
    """
    if world_size == 1:
        return Layout(1, 1, 1, "one rank")
    for ask in (_megatron, _deepspeed, _meshes, _groups):
        found = ask(model, world_size)
        if found is not None:
            return found if found.data_size >= 1 else None
    return None


def _megatron(model: nn.Module, world_size: int) -> Layout | None:
    del model, world_size
    state = sys.modules.get("megatron.core.parallel_state")
    if state is None or not state.model_parallel_is_initialized():
        return None
    return Layout(
        state.get_data_parallel_world_size(),
        state.get_tensor_model_parallel_world_size(),
        state.get_pipeline_model_parallel_world_size(),
        "Megatron's groups",
    )


def _deepspeed(model: nn.Module, world_size: int) -> Layout | None:
    data_size = getattr(model, "dp_world_size", None)
    if not isinstance(data_size, int) or not hasattr(model, "backward"):
        return None
    if (getattr(model, "sequence_parallel_size", None) or 1) > 1:
        return None  # whether a rank is given a whole sequence is up to its loader
    tensor_size = getattr(model, "mp_world_size", None) or 1
    pipeline_size = max(1, world_size // (data_size * tensor_size))
    return Layout(data_size, tensor_size, pipeline_size, "DeepSpeed's engine")


def _meshes(model: nn.Module, world_size: int) -> Layout | None:
    """Ask the meshes of parameters: a dimension of FSDP or of replicas shares data, others not."""
    mesh = next((found for found in map(_mesh_of, model.parameters()) if found is not None), None)
    if mesh is None:
        return None
    data_size = _fsdp_size(model) or _group_size(model)
    if data_size is None:
        # Tensor parallelism alone: all ranks of the mesh are given the same.
        data_size = 1 if mesh.size() == world_size else 0
        return Layout(data_size, world_size, 1, "the device mesh of the parameters")
    return Layout(data_size, max(1, world_size // data_size), 1, "the device mesh of FSDP")


def _groups(model: nn.Module, world_size: int) -> Layout | None:
    size = _group_size(model)
    if size is None or world_size % size:
        return None
    source = "the process group of DDP or FSDP"
    # What the other ranks do beside this group, nobody says.
    return Layout(size, 1, 1, source) if size == world_size else None


def _mesh_of(parameter: Any) -> Any:
    return getattr(parameter, "device_mesh", None)


def _fsdp_size(model: nn.Module) -> int | None:
    """Return over how many ranks FSDP2 shards and replicates, which are given different data."""
    for group in _fsdp_groups(model):
        info = getattr(group, "mesh_info", None)
        shard = getattr(info, "shard_mesh_size", None)
        if shard is not None:
            return int(shard * (getattr(info, "replicate_mesh_size", None) or 1))
    return None


def _fsdp_groups(model: nn.Module) -> Iterator[Any]:
    for module in model.modules():
        state = getattr(module, "_get_fsdp_state", None)
        if callable(state):
            found = state()
            group = getattr(found, "_fsdp_param_group", None)
            if group is not None:
                yield group
            yield from getattr(found, "_fsdp_param_groups", ())


def _group_size(model: nn.Module) -> int | None:
    """Return the size of the process group of DDP, or of FSDP1 with its replicas."""
    for module in model.modules():
        name = type(module).__name__
        if name == "DistributedDataParallel":
            return int(module.process_group.size())
        if name == "FullyShardedDataParallel":
            size = int(module.process_group.size())
            between = getattr(module, "_inter_node_pg", None)
            return size * (int(between.size()) if between is not None else 1)
    return None
