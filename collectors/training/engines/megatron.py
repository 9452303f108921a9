"""Training with megatron-core's tensor parallelism and the data parallelism of torch's DDP."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from tracekit.errors import UsageError

from ...model.models import describe
from ..result import RankResult
from ..spec import TrainingSpec
from ._engine import Engine, adamw

_LLAMA_LIKE = ("llama", "mistral")
_DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


class MegatronEngine(Engine):
    def __init__(self, model: torch.nn.Module, spec: TrainingSpec, device: torch.device) -> None:
        from megatron.core import parallel_state

        super().__init__(model)
        self._ddp = DistributedDataParallel(
            model,
            device_ids=[device.index] if device.type == "cuda" else None,
            process_group=parallel_state.get_data_parallel_group(),
            gradient_as_bucket_view=True,
        )
        self._optimizer = adamw(model, spec)
        self._positions = torch.arange(spec.sequence_length, device=device).unsqueeze(0)

    def loss(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        labels = batch["labels"].roll(-1, dims=1)
        losses = self._ddp(
            batch["input_ids"], self._positions.expand_as(labels), None, labels=labels
        )
        return losses[:, :-1].float().mean()

    def report(self) -> dict[str, Any]:
        return {"megatron": {"layer_spec": "local", "data_parallel": "torch DDP"}}


def build(
    spec: TrainingSpec, config: Any, device: torch.device, result: RankResult
) -> MegatronEngine:
    _check(spec, config)
    with warnings.catch_warnings():
        # Imports of megatron-core warn if Apex and Transformer Engine are missing.
        warnings.simplefilter("ignore", UserWarning)
        from megatron.core import parallel_state, tensor_parallel
        from megatron.core.models.gpt import GPTModel
        from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    parallel_state.initialize_model_parallel(tensor_model_parallel_size=spec.tensor_size)
    tensor_parallel.model_parallel_cuda_manual_seed(spec.seed)
    rope = getattr(config, "rope_parameters", None) or {}
    model = GPTModel(
        _transformer_config(spec, config),
        get_gpt_layer_local_spec(normalization="RMSNorm"),
        vocab_size=config.vocab_size,
        max_sequence_length=spec.sequence_length,
        position_embedding_type="rope",
        rotary_base=int(rope.get("rope_theta", 10000)),
        share_embeddings_and_output_weights=config.tie_word_embeddings,
    ).to(device, _DTYPES[spec.precision])
    result.attention_backend = "megatron local"
    total = _parameter_count(model, spec.tensor_size)
    counts = {"parameter_count": total, "trainable_parameter_count": total}
    result.model = describe(type(model).__name__, model, config) | counts
    return MegatronEngine(model, spec, device)


def _check(spec: TrainingSpec, config: Any) -> None:
    if config.model_type not in _LLAMA_LIKE:
        raise UsageError(f"--engine megatron supports Llama models, not {config.model_type}")
    for name in ("num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size"):
        if getattr(config, name) % spec.tensor_size:
            raise UsageError(
                f"--tp is {spec.tensor_size}, which does not divide the model's {name}, "
                f"{getattr(config, name)}"
            )


def _transformer_config(spec: TrainingSpec, config: Any) -> Any:
    from megatron.core.transformer import TransformerConfig

    recompute: dict[str, Any] = {}
    if "R" in spec.opt:
        recompute = {
            "recompute_granularity": "full",
            "recompute_method": "uniform",
            "recompute_num_layers": 1,
        }
    return TransformerConfig(
        num_layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        ffn_hidden_size=config.intermediate_size,
        num_attention_heads=config.num_attention_heads,
        num_query_groups=config.num_key_value_heads,
        tensor_model_parallel_size=spec.tensor_size,
        bf16=spec.precision == "bf16",
        params_dtype=_DTYPES[spec.precision],
        normalization="RMSNorm",
        layernorm_epsilon=config.rms_norm_eps,
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        bias_activation_fusion=False,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        apply_rope_fusion=False,
        gradient_accumulation_fusion=False,
        **recompute,
    )


def _parameter_count(model: torch.nn.Module, tensor_size: int) -> int:
    return sum(
        parameter.numel()
        * (tensor_size if getattr(parameter, "tensor_model_parallel", False) else 1)
        for parameter in model.parameters()
    )
