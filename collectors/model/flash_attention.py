"""Selects the FlashAttention implementation for a model and gives the reason.

Support depends on sequence and head sizes, grouped heads, and the mask. So trial runs use the
shapes and the mask of the model.
"""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import inspect
import warnings
from typing import Any, NamedTuple

import torch
from torch import nn

from ..machine import memory

FLASH = "tracekit_sdpa_one_backend"
"""Name under which tracekit registers attention that uses only torch's flash SDPA backend.

The name must not contain "flash", because transformers would then try to download a kernel.
"""

_LONGEST_HEAD = 256
_MIN_CAPABILITY = (8, 0)


class Backend(NamedTuple):
    """An attention implementation: its name in transformers, its display name, and the reason."""

    implementation: str
    name: str
    reason: str


class AttentionShape(NamedTuple):
    sequence_length: int
    head_count: int
    key_value_head_count: int
    head_size: int
    value_size: int

    def __str__(self) -> str:
        heads = f"{self.head_count} heads"
        if self.key_value_head_count != self.head_count:
            heads += f" ({self.key_value_head_count} for keys and values)"
        size = f"of {self.head_size}"
        if self.value_size != self.head_size:
            size += f" (values {self.value_size})"
        return f"{self.sequence_length} tokens, {heads} {size}"


def flash(device: torch.device, dtype: torch.dtype, config: Any, sequence_length: int) -> Backend:
    """Select FlashAttention: the flash-attn package if it can run, else torch's flash backend."""
    shape = attention_shape(config, sequence_length)
    package = flash_package_problem(device, dtype, shape)
    if package is None:
        return package_backend()
    _register_flash()
    problem = flash_backend_problem(device, dtype, shape, config)
    if problem is None:
        return Backend(FLASH, "torch SDPA, flash", f"{package}; torch's flash backend is used")
    return Backend(
        "sdpa", "torch SDPA", f"{package}; torch's flash backend cannot run {shape}: {problem}"
    )


def package_backend() -> Backend:
    version = importlib.metadata.version("flash-attn")
    return Backend(
        "flash_attention_2", f"flash-attn {version}", "the flash-attn package runs on this GPU"
    )


def attention_shape(config: Any, sequence_length: int) -> AttentionShape:
    heads = int(config.num_attention_heads)
    size = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    # Multi-head latent attention: queries and keys have two parts, and values have another size.
    latent = getattr(config, "qk_nope_head_dim", None)
    if latent is not None:
        size = int(latent) + int(getattr(config, "qk_rope_head_dim", None) or 0)
    return AttentionShape(
        sequence_length,
        heads,
        int(getattr(config, "num_key_value_heads", None) or heads),
        size,
        int(getattr(config, "v_head_dim", None) or size),
    )


def flash_package_problem(
    device: torch.device, dtype: torch.dtype, shape: AttentionShape
) -> str | None:
    """Return why the flash-attn package cannot run, according to its README; None if it can."""
    if device.type != "cuda":
        return f"flash-attn does not support {device.type}"
    if dtype not in (torch.float16, torch.bfloat16):
        return f"flash-attn does not support {str(dtype).removeprefix('torch.')}"
    if max(shape.head_size, shape.value_size) > _LONGEST_HEAD:
        return f"flash-attn supports head sizes up to {_LONGEST_HEAD}, not {shape.head_size}"
    capability = torch.cuda.get_device_capability(device)
    if capability < _MIN_CAPABILITY:
        return f"flash-attn needs compute capability 8.0, not {capability[0]}.{capability[1]}"
    try:
        from transformers.utils import is_flash_attn_2_available

        importlib.import_module("flash_attn")
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "flash_attn"
        return "flash-attn is not installed" if missing else f"flash-attn cannot load: {error}"
    if not is_flash_attn_2_available():
        return "transformers does not support this version of flash-attn"
    return None


def flash_backend_problem(
    device: torch.device, dtype: torch.dtype, shape: AttentionShape, config: Any
) -> str | None:
    """Try torch's flash backend with each kind of mask; return why it cannot run, if so."""
    for mask in _masks(device, dtype, shape, config):
        problem = _run_once(device, dtype, shape, mask)
        if problem is not None:
            return problem if mask is None else f"with a mask: {problem}"
    return None


def _masks(
    device: torch.device, dtype: torch.dtype, shape: AttentionShape, config: Any
) -> list[torch.Tensor | None]:
    """Return the distinct masks of the layers of a model; None means causal."""
    from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask

    own = copy.deepcopy(config)
    own._attn_implementation = FLASH
    inputs = torch.zeros(1, shape.sequence_length, 1, device=device, dtype=dtype)
    kinds = set(getattr(config, "layer_types", None) or ())
    is_sliding = bool(getattr(config, "sliding_window", None))
    if not kinds:
        kinds = {"sliding_attention" if is_sliding else "full_attention"}
    masks: list[Any] = []
    for kind in sorted(kinds):
        make = create_causal_mask
        if kind == "sliding_attention" and is_sliding:
            make = create_sliding_window_causal_mask
        # transformers 4 uses another parameter name and also requires the positions.
        known = inspect.signature(make).parameters
        more = {"inputs_embeds" if "inputs_embeds" in known else "input_embeds": inputs}
        if "cache_position" in known:
            more["cache_position"] = torch.arange(shape.sequence_length, device=device)
        mask = make(config=own, attention_mask=None, past_key_values=None, **more)
        if mask is not None or None not in masks:
            masks.append(mask)
    return masks


def _run_once(
    device: torch.device, dtype: torch.dtype, shape: AttentionShape, mask: torch.Tensor | None
) -> str | None:
    module = nn.Module()
    module.is_causal = True
    module.num_key_value_groups = shape.head_count // shape.key_value_head_count

    def zeros(head_count: int, size: int) -> torch.Tensor:
        lengths = (1, head_count, shape.sequence_length, size)
        return torch.zeros(lengths, device=device, dtype=dtype, requires_grad=True)

    # Torch's warnings explain why a backend rejects an input.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            output, _ = _flash_attention(
                module,
                zeros(shape.head_count, shape.head_size),
                zeros(shape.key_value_head_count, shape.head_size),
                zeros(shape.key_value_head_count, shape.value_size),
                mask,
            )
            output.sum().backward()
        except RuntimeError as error:
            if memory.is_out_of_memory(error):
                # The backend accepted the input; only the actual run shows whether memory is
                # enough.
                return None
            reasons = [str(warning.message).partition(" (Triggered")[0] for warning in caught]
            return "; ".join(dict.fromkeys(reasons)) or str(error)
    return None


def _register_flash() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(FLASH, _flash_attention)
    AttentionMaskInterface.register(FLASH, sdpa_mask)


def _flash_attention(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return sdpa_attention_forward(module, *args, **kwargs)
