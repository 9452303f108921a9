"""Training with DeepSpeed ZeRO, with and without offload."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch

from ...machine.hardware import memory_bytes
from ...model.models import parameter_count
from ..spec import TrainingSpec
from ._engine import WEIGHT_DECAY, Engine, trained

WHOLE_MODEL_SHARE = 0.25
"""Stage 3 shards a model above this fraction of a rank's memory while creating it."""

# With fewer parameters, DeepSpeed's defaults would keep all parameters gathered.
_SMALL_MODEL = 500_000_000


def parameter_dtype(spec: TrainingSpec) -> torch.dtype:
    """Return the type of the created weights; DeepSpeed keeps fp32 copies of its shards."""
    return {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[spec.precision]


def construction(
    spec: TrainingSpec, size_bytes: int, device: torch.device
) -> AbstractContextManager[Any]:
    """Return the context in which to create a model; under stage 3, it shards large models.

    A model sharded this way has torch's initial weights, because transformers' initialization sees
    empty parameters. Models with 4-bit weights are not sharded here, because only complete weights
    can be packed.
    """
    if spec.opt.zero_stage != 3 or spec.opt.is_quantized:
        return contextlib.nullcontext()
    if size_bytes <= WHOLE_MODEL_SHARE * _memory_bytes(device):
        return contextlib.nullcontext()
    deepspeed = _import(device)
    zero: dict[str, Any] = {"stage": 3}
    if "O" in spec.opt:
        zero["offload_param"] = {"device": "cpu", "pin_memory": device.type == "cuda"}
    config = {
        "train_micro_batch_size_per_gpu": spec.batch_size,
        "zero_optimization": zero,
        "bf16": {"enabled": spec.precision == "bf16"},
        "fp16": {"enabled": spec.precision == "fp16"},
    }
    return deepspeed.zero.Init(config_dict_or_path=config, dtype=parameter_dtype(spec))


class DeepSpeedEngine(Engine):
    def __init__(self, model: torch.nn.Module, spec: TrainingSpec, device: torch.device) -> None:
        super().__init__(model)
        deepspeed = _import(device)
        self._config = config = _config(model, spec, device, self.notes)
        self._engine, *_ = deepspeed.initialize(
            model=model,
            model_parameters=trained(model.parameters()),
            config=config,
            dist_init_required=False,
        )
        self.module = self._engine.module

    def loss(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return self._engine(**batch).loss

    def backward(self, loss: torch.Tensor) -> None:
        self._engine.backward(loss)

    def optimize(self) -> None:
        self._engine.step()

    def report(self) -> dict[str, Any]:
        return {"deepspeed_config": self._config}


ENGINE = DeepSpeedEngine


def _memory_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return (memory_bytes() or 0) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _import(device: torch.device) -> Any:
    if device.type != "cuda":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    import deepspeed
    import deepspeed.ops

    if device.type != "cuda":
        # DeepSpeed's shared-memory collective takes a minute to compile, and would bypass gloo.
        # Without this private table, only the start is slower.
        compatible = getattr(deepspeed.ops, "__compatible_ops__", {})
        compatible["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(
        dist_backend="nccl" if device.type == "cuda" else "gloo", verbose=False
    )
    return deepspeed


def _config(
    model: torch.nn.Module, spec: TrainingSpec, device: torch.device, notes: list[str]
) -> dict[str, Any]:
    opt = spec.opt
    zero: dict[str, Any] = {"stage": opt.zero_stage}
    if "O" in opt:
        pin = device.type == "cuda"
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": pin}
        if opt.zero_stage == 3:
            zero["offload_param"] = {"device": "cpu", "pin_memory": pin}
    zero |= _sizes(model, opt.zero_stage)
    uses_native = device.type == "cuda" and _can_build("O" in opt, notes)
    return {
        "train_micro_batch_size_per_gpu": spec.batch_size,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 0.0,  # the default of 1 would be work that no other engine does
        "zero_optimization": zero,
        "bf16": {"enabled": spec.precision == "bf16"},
        "fp16": {"enabled": spec.precision == "fp16"},
        "optimizer": {
            "type": "AdamW",
            "params": {
                "lr": spec.learning_rate,
                "weight_decay": WEIGHT_DECAY,
                "torch_adam": not uses_native,
            },
        },
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": uses_native,
        "steps_per_print": 2**31,
    }


def _sizes(model: torch.nn.Module, zero_stage: int) -> dict[str, int]:
    """Return bucket sizes and stage 3 thresholds, in elements, for small models.

    DeepSpeed allocates complete buckets, 1 GB by default. With a reuse distance of 0, it frees
    gathered parameters after the forward pass, as in models that need stage 3.
    """
    count, _ = parameter_count(model)
    if count >= _SMALL_MODEL:
        return {}
    buckets = {"reduce_bucket_size": max(1, count), "allgather_bucket_size": max(1, count)}
    if zero_stage != 3:
        return buckets
    return {
        **buckets,
        "stage3_max_live_parameters": max(1, count // 14),
        "stage3_max_reuse_distance": 0,
        "stage3_param_persistence_threshold": 1000,
        "stage3_prefetch_bucket_size": max(1, count // 21),
    }


def _can_build(is_offloaded: bool, notes: list[str]) -> bool:
    from deepspeed.ops.op_builder import CPUAdamBuilder, FusedAdamBuilder
    from torch.utils.cpp_extension import CUDA_HOME

    builder = CPUAdamBuilder() if is_offloaded else FusedAdamBuilder()
    if CUDA_HOME is None:
        reason = "no CUDA toolkit"
    elif not builder.is_compatible(verbose=False):
        reason = "it does not support this machine"
    else:
        try:
            # DeepSpeed would compile it later, when a fallback is no longer possible.
            builder.load(verbose=False)
        except Exception as error:  # noqa: BLE001 - a compilation may raise any exception
            message = str(error).strip().partition("\n")[0]
            reason = f"{type(error).__name__}: {message[:200]}"
        else:
            return True
    notes.append(
        f"DeepSpeed cannot compile {builder.name} here ({reason}), so torch's AdamW is used"
    )
    return False
