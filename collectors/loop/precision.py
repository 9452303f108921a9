"""The type in which a loop computes its matrix products, which need not be that of its weights."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
_ACCELERATE = {"bf16": "bf16", "fp16": "fp16", "no": None, "fp8": "fp8"}


def autocast_type(device: torch.device) -> str | None:
    """Return the type that autocast computes in on this thread now; None where it is off."""
    try:
        if not torch.is_autocast_enabled(device.type):
            return None
        return _NAMES.get(torch.get_autocast_dtype(device.type))
    except (RuntimeError, TypeError):  # a kind of device that autocast does not know
        return None


def precision_of(model: nn.Module, inner: nn.Module) -> str | None:
    """Return the type that a model computes in without autocast, as far as its wrappings tell.

    Args:
        model: as the loop calls it.
        inner: the user's own.
    """
    for asked in (_deepspeed(model), _fsdp(model), _accelerate()):
        if asked is not None:
            return asked
    kinds = {p.dtype for p in inner.parameters() if p.is_floating_point()}
    return _NAMES.get(kinds.pop()) if len(kinds) == 1 else None


def _deepspeed(model: nn.Module) -> str | None:
    for name, kind in (("bfloat16_enabled", "bf16"), ("fp16_enabled", "fp16")):
        asked = getattr(model, name, None)
        if callable(asked) and asked() is True:
            return kind
    return None


def _fsdp(model: nn.Module) -> str | None:
    """Return what FSDP casts parameters to for the computation."""
    for module in model.modules():
        policy: Any = getattr(module, "mixed_precision", None)  # FSDP1
        state = getattr(module, "_get_fsdp_state", None)
        if callable(state):
            policy = getattr(state(), "_mp_policy", None)
        kind = getattr(policy, "param_dtype", None)
        if kind is not None:
            return _NAMES.get(kind)
    return None


def _accelerate() -> str | None:
    """Return what Accelerate wraps a model's forward in, where the calls themselves do not show."""
    state = sys.modules.get("accelerate.state")
    shared = getattr(getattr(state, "AcceleratorState", None), "_shared_state", {})
    return _ACCELERATE.get(str(shared.get("_mixed_precision")))
