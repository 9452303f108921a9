"""`--stage finetune`: all weights, or those of an adapter: LoRA, QLoRA, LoRA-FA, prompt tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from .spec import TrainingSpec

LORA_RANK = 64
LORA_ALPHA = 16
PROMPT_TOKEN_COUNT = 20


def prepare(
    model: torch.nn.Module, spec: TrainingSpec, compute_dtype: torch.dtype, device: torch.device
) -> torch.nn.Module:
    """Make a model ready to be fine-tuned: pack its weights, freeze them, add an adapter."""
    adapter = spec.opt.adapter
    if adapter is None:
        return model
    import peft

    if adapter == "QL":
        from .quantization import quantize_linear_layers

        quantize_linear_layers(model, compute_dtype, device)
    if spec.opt.is_recomputed:
        # The first layer's input comes from a frozen embedding.
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
    # The adapter has the type of the weights, as in the paper.
    adapted: torch.nn.Module = peft.get_peft_model(model, config, autocast_adapter_dtype=False)
    if adapter == "LFA":
        for name, parameter in adapted.named_parameters():
            if ".lora_A." in name:
                parameter.requires_grad_(False)
    return adapted


def lora_fa_optimizer(model: torch.nn.Module, spec: TrainingSpec) -> torch.optim.Optimizer:
    """Return the optimizer of LoRA-FA, which trains B and leaves A as it was drawn."""
    from peft.optimizers import create_lorafa_optimizer

    return create_lorafa_optimizer(
        model=model, r=LORA_RANK, lora_alpha=LORA_ALPHA, lr=spec.learning_rate
    )
