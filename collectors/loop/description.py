"""Describes the trained model, its engine, its precision, and its parallelism."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import torch
from torch import nn

from tracekit.manifest import Parallel

from ..calls.module_paths import class_name, unwrapped
from ..model import models
from ..run.environment import probe
from .report import LoopReport

_PRECISIONS = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
_ACCELERATE = {"bf16": "bf16", "fp16": "fp16", "no": None, "fp8": "fp8"}


def describe(model: nn.Module, name: str | None, report: LoopReport) -> None:
    """Add the model and its engine to a report; keep a known precision."""
    inner = unwrapped(model)
    config: Any = getattr(inner, "config", None)
    kind = class_name(inner)
    report.model = {"name": name or kind, **models.describe(kind, model, config)}
    report.engine = _engine_of(model)
    if report.precision is None:
        report.precision = precision_of(model, inner)
    layout = layout_of(model, report.world_size)
    report.layout = {} if layout is None else msgspec.to_builtins(layout)
    report.attention_backend = getattr(config, "_attn_implementation", None)
    report.environment = msgspec.to_builtins(probe())


def _engine_of(model: nn.Module) -> str:
    children = dict(model.named_children())
    # Many reinforcement-learning models also have methods with these names, but no such child.
    if "module" in children and hasattr(model, "backward") and hasattr(model, "step"):
        return type(model).__module__.partition(".")[0]
    wrapped = getattr(model, "_orig_mod", model)  # the module inside torch.compile's wrapper
    if isinstance(wrapped, nn.parallel.DistributedDataParallel):
        return "ddp"
    if any(type(module).__mro__[1].__name__ == "FSDPModule" for module in model.modules()):
        return "fsdp2"
    return "fsdp1" if type(wrapped).__name__ == "FullyShardedDataParallel" else "torch"


def autocast_type(device: torch.device) -> str | None:
    try:
        if not torch.is_autocast_enabled(device.type):
            return None
        return _PRECISIONS.get(torch.get_autocast_dtype(device.type))
    except (RuntimeError, TypeError):  # autocast does not support this kind of device
        return None


def precision_of(model: nn.Module, inner: nn.Module) -> str | None:
    for dtype in (_deepspeed_precision(model), _fsdp_precision(model), _accelerate_precision()):
        if dtype is not None:
            return dtype
    kinds = {p.dtype for p in inner.parameters() if p.is_floating_point()}
    return _PRECISIONS.get(kinds.pop()) if len(kinds) == 1 else None


def _deepspeed_precision(model: nn.Module) -> str | None:
    for name, kind in (("bfloat16_enabled", "bf16"), ("fp16_enabled", "fp16")):
        check = getattr(model, name, None)
        if callable(check) and check() is True:
            return kind
    return None


def _fsdp_precision(model: nn.Module) -> str | None:
    for module in model.modules():
        policy: Any = getattr(module, "mixed_precision", None)  # FSDP1
        state = getattr(module, "_get_fsdp_state", None)
        if callable(state):
            policy = getattr(state(), "_mp_policy", None)
        kind = getattr(policy, "param_dtype", None)
        if kind is not None:
            return _PRECISIONS.get(kind)
    return None


def _accelerate_precision() -> str | None:
    """Return the autocast type that Accelerate applies inside a model's forward, or None."""
    state = sys.modules.get("accelerate.state")
    shared = getattr(getattr(state, "AcceleratorState", None), "_shared_state", {})
    return _ACCELERATE.get(str(shared.get("_mixed_precision")))


def layout_of(model: nn.Module, world_size: int) -> Parallel | None:
    """Return how the ranks share the work of a model, or None if unknown.

    Tokens are counted once per data-parallel rank, because all ranks of a tensor-parallel group
    get the same tokens.
    """
    if world_size == 1:
        return Parallel()
    for ask in (_megatron, _deepspeed, _meshes, _groups):
        result = ask(model, world_size)
        if result is not None:
            return result if result.data_size else None
    return None


def _megatron(_model: nn.Module, world_size: int) -> Parallel | None:
    state = sys.modules.get("megatron.core.parallel_state")
    if state is None or not state.model_parallel_is_initialized():
        return None
    return Parallel(
        world_size,
        state.get_data_parallel_world_size(),
        state.get_tensor_model_parallel_world_size(),
        state.get_pipeline_model_parallel_world_size(),
    )


def _deepspeed(model: nn.Module, world_size: int) -> Parallel | None:
    data_size = getattr(model, "dp_world_size", None)
    if not isinstance(data_size, int) or not hasattr(model, "backward"):
        return None
    if (getattr(model, "sequence_parallel_size", None) or 1) > 1:
        return None  # a loader may pass complete or partial sequences to a rank
    tensor_size = getattr(model, "mp_world_size", None) or 1
    pipeline_size = max(1, world_size // (data_size * tensor_size))
    return Parallel(world_size, data_size, tensor_size, pipeline_size)


def _meshes(model: nn.Module, world_size: int) -> Parallel | None:
    meshes = (getattr(parameter, "device_mesh", None) for parameter in model.parameters())
    mesh: Any = next((one for one in meshes if one is not None), None)
    if mesh is None:
        return None
    data_size = _fsdp_size(model) or _group_size(model)
    if data_size is None:
        # With tensor parallelism only, all ranks of the mesh receive the same tokens.
        data_size = 1 if mesh.size() == world_size else 0
        return Parallel(world_size, data_size, world_size)
    return Parallel(world_size, data_size, max(1, world_size // data_size))


def _groups(model: nn.Module, world_size: int) -> Parallel | None:
    # If the group is smaller than the world, the other ranks have an unknown role.
    if _group_size(model) != world_size:
        return None
    return Parallel(world_size, world_size)


def _fsdp_size(model: nn.Module) -> int | None:
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
            result = state()
            group = getattr(result, "_fsdp_param_group", None)
            if group is not None:
                yield group
            yield from getattr(result, "_fsdp_param_groups", ())


def _group_size(model: nn.Module) -> int | None:
    for module in model.modules():
        name = type(module).__name__
        if name == "DistributedDataParallel":
            return int(module.process_group.size())
        if name == "FullyShardedDataParallel":
            size = int(module.process_group.size())
            between = getattr(module, "_inter_node_pg", None)
            return size * (int(between.size()) if between is not None else 1)
    return None
