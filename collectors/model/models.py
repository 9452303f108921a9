"""The models that the collectors know by name: configurations only, weights are random.

Nothing is downloaded. The sizes are those of the paper's models; `tiny` has the same structure and
is small enough for a CPU, for training and for serving.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import UsageError

if TYPE_CHECKING:
    import torch
    import transformers

CONFIGS: dict[str, dict[str, Any]] = {
    "tiny": {
        "hidden_size": 256,
        "intermediate_size": 688,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "vocab_size": 2048,
        "max_position_embeddings": 2048,
    },
    "llama2-7b": {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
    },
    "llama2-13b": {
        "hidden_size": 5120,
        "intermediate_size": 13824,
        "num_hidden_layers": 40,
        "num_attention_heads": 40,
        "num_key_value_heads": 40,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
    },
    "llama2-70b": {
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
    },
}
_LLAMA = {"model_type": "llama", "rms_norm_eps": 1e-5, "tie_word_embeddings": False}


def check_name(name: str, layer_count: int | None = None) -> None:
    """Make sure that a model can be made of a name, without loading anything heavy.

    Raises:
        UsageError: it is neither a known name nor a configuration file, or has fewer layers.
    """
    values = _config_values(name)
    _check_layers(name, layer_count, values.get("num_hidden_layers"))


def display_name(name: str, layer_count: int | None = None) -> str:
    """Return the short name of a model for folder names and tables."""
    path = Path(name)
    short = name if name in CONFIGS else (path.stem if path.suffix == ".json" else path.name)
    return f"{short}-{layer_count}layers" if layer_count else short


def model_config(name: str, layer_count: int | None = None) -> transformers.PretrainedConfig:
    """Return the configuration of a model.

    Args:
        name: a name of `CONFIGS`, a `config.json`, or the folder of a model that holds one.
        layer_count: how many layers to keep, or None for all.

    Raises:
        UsageError: the name is unknown, or the configuration is of no causal language model.
    """
    import transformers

    values = _config_values(name)
    model_type = values.pop("model_type", None)
    if not isinstance(model_type, str) or model_type not in transformers.CONFIG_MAPPING:
        raise UsageError(
            f"{name}: transformers {transformers.__version__} knows no model_type {model_type!r}"
        )
    config = transformers.CONFIG_MAPPING[model_type].from_dict(values)
    if type(config) not in transformers.AutoModelForCausalLM._model_mapping:
        raise UsageError(f"{name}: {model_type} is no causal language model")
    if layer_count is not None:
        _check_layers(name, layer_count, config.num_hidden_layers)
        config.num_hidden_layers = layer_count
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:layer_count]
    return config


def build(
    config: transformers.PretrainedConfig,
    *,
    seed: int,
    dtype: torch.dtype,
    attention: str = "eager",
    device: str | torch.device = "cpu",
) -> transformers.PreTrainedModel:
    """Make a causal language model with random weights.

    Args:
        config: see `model_config`.
        seed: the same seed gives the same weights on the same kind of device.
        dtype: type of the weights.
        attention: name of the attention implementation, as transformers knows it.
        device: where the weights are made; `meta` makes none.
    """
    import torch
    import transformers

    torch.manual_seed(seed)
    with torch.device(device):
        model: transformers.PreTrainedModel = transformers.AutoModelForCausalLM.from_config(
            config, dtype=dtype, attn_implementation=attention
        )
    # A cache of keys and values is for generation; training would only pay for it.
    model.config.use_cache = False
    return model


def parameter_count(model: torch.nn.Module) -> tuple[int, int]:
    """Return how many parameters a model has, and how many of them are trained.

    Packed 4-bit weights count as the weights that they stand for.
    """
    total = trainable = 0
    for parameter in model.parameters():
        # ZeRO-3 leaves an empty tensor and keeps the number beside it; bitsandbytes packs.
        state = getattr(parameter, "quant_state", None)
        if state is not None:
            count = state.shape.numel()
        else:
            count = getattr(parameter, "ds_numel", None) or parameter.numel()
        total += count
        trainable += count if parameter.requires_grad else 0
    return total, trainable


def _check_layers(name: str, layer_count: int | None, total: object) -> None:
    if layer_count is None or not isinstance(total, int):
        return
    if not 1 <= layer_count <= total:
        raise UsageError(f"--layers is {layer_count}, but {name} has {total} layers")


def _config_values(name: str) -> dict[str, Any]:
    """Return the members of a configuration."""
    if name in CONFIGS:
        return {**_LLAMA, **CONFIGS[name]}
    path = Path(name).expanduser()
    if path.is_dir():
        path = path / "config.json"
    if not path.is_file():
        known = ", ".join(CONFIGS)
        raise UsageError(
            f"--model is {name!r}, which is neither a known model nor a configuration file",
            hint=f"known: {known}; or the path of a config.json or of a model's folder",
        )
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: the configuration cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise UsageError(f"{path}: the configuration is no JSON object")
    return values
