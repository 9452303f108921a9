"""Applies methods of `--opt` to a model: 4-bit weights and adapters.

4-bit weights are NF4 with double quantization (bitsandbytes), created from the weights in memory.
"""

from __future__ import annotations

import torch

from .spec import TrainingSpec

LORA_RANK = 64
LORA_ALPHA = 16
PROMPT_TOKEN_COUNT = 20

# Like bitsandbytes, skip the output layer: quantizing it costs accuracy and saves little.
_KEPT = ("lm_head",)


def prepare(
    model: torch.nn.Module, spec: TrainingSpec, compute_dtype: torch.dtype, device: torch.device
) -> torch.nn.Module:
    adapter = spec.opt.adapter
    if spec.opt.is_quantized:
        quantize_linear_layers(model, compute_dtype, device)
    if adapter is None:
        return model
    import peft

    if "R" in spec.opt:
        # The embedding is frozen, so without this call, the first layer's input would have no
        # gradient.
        model.enable_input_require_grads()
    if adapter == "PT":
        config = peft.PromptTuningConfig(
            task_type="CAUSAL_LM", num_virtual_tokens=PROMPT_TOKEN_COUNT
        )
    else:
        config = peft.LoraConfig(
            task_type="CAUSAL_LM",
            r=LORA_RANK,
            lora_alpha=LORA_ALPHA,
            lora_dropout=0.0,
            target_modules="all-linear",
        )
    # The adapter has the dtype of the weights, as in arXiv 2311.03687.
    adapted: torch.nn.Module = peft.get_peft_model(model, config, autocast_adapter_dtype=False)
    if adapter == "LFA":
        for name, parameter in adapted.named_parameters():
            if ".lora_A." in name:
                parameter.requires_grad_(False)
    return adapted


def lora_fa_optimizer(model: torch.nn.Module, spec: TrainingSpec) -> torch.optim.Optimizer:
    from peft.optimizers import create_lorafa_optimizer

    return create_lorafa_optimizer(
        model=model, r=LORA_RANK, lora_alpha=LORA_ALPHA, lr=spec.learning_rate
    )


def quantize_linear_layers(
    model: torch.nn.Module, compute_dtype: torch.dtype, device: torch.device
) -> None:
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
