"""4-bit NF4 weights with double quantization (bitsandbytes), made from the weights in memory."""

from __future__ import annotations

import torch

# Quantizing the output layer costs accuracy and saves little; bitsandbytes leaves it as well.
_KEPT = ("lm_head",)


def quantize_linear_layers(
    model: torch.nn.Module, compute_dtype: torch.dtype, device: torch.device
) -> int:
    """Replace the weights of the linear layers by frozen 4-bit ones.

    Args:
        model: changed in place; the output layer stays as it is.
        compute_dtype: type that the weights are unpacked to for each product.
        device: where the packed weights go.

    Returns:
        How many layers were replaced.
    """
    import bitsandbytes

    names = [
        name
        for name, module in model.named_modules()
        if type(module) is torch.nn.Linear and name.rpartition(".")[2] not in _KEPT
    ]
    for name in names:
        parent_name, _, child_name = name.rpartition(".")
        parent = model.get_submodule(parent_name)
        linear = getattr(parent, child_name)
        packed = bitsandbytes.nn.Linear4bit(
            linear.in_features,
            linear.out_features,
            bias=linear.bias is not None,
            compute_dtype=compute_dtype,
            compress_statistics=True,
            quant_type="nf4",
            device="meta",
        )
        packed.weight = bitsandbytes.nn.Params4bit(
            linear.weight.detach(),
            requires_grad=False,
            compress_statistics=True,
            quant_type="nf4",
            module=packed,
        )
        packed.bias = linear.bias
        setattr(parent, child_name, packed.to(device))
    return len(names)
