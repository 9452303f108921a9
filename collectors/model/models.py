"""Built-in model configurations of arXiv 2311.03687; weights are random, nothing is downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import UsageError
from tracekit.small_files import parse_json, read_small

if TYPE_CHECKING:
    import torch
    import transformers

_SIZES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "vocab_size", "max_position_embeddings"),
)
CONFIGS: dict[str, tuple[int, ...]] = {
    "tiny": (256, 688, 4, 8, 8, 2048, 2048),
    "llama2-7b": (4096, 11008, 32, 32, 32, 32000, 4096),
    "llama2-13b": (5120, 13824, 40, 40, 40, 32000, 4096),
    "llama2-70b": (8192, 28672, 80, 64, 8, 32000, 4096),
}
_LLAMA = {"model_type": "llama", "rms_norm_eps": 1e-5, "tie_word_embeddings": False}


def check_name(name: str, layer_count: int | None = None) -> None:
    """Check without heavy imports that a model exists and has enough layers."""
    values = _config_values(name)
    _check_layers(name, layer_count, values.get("num_hidden_layers"))


def display_name(name: str, layer_count: int | None = None) -> str:
    path = Path(name)
    short = name if name in CONFIGS else (path.stem if path.suffix == ".json" else path.name)
    return f"{short}-{layer_count}layers" if layer_count else short


def model_config(name: str, layer_count: int | None = None) -> transformers.PretrainedConfig:
    """Return the configuration for a known name, a `config.json`, or a model folder."""
    import transformers

    values = _config_values(name)
    model_type = values.pop("model_type", None)
    if not isinstance(model_type, str) or model_type not in transformers.CONFIG_MAPPING:
        raise UsageError(
            f"{name}: transformers {transformers.__version__} does not support model_type "
            f"{model_type!r}"
        )
    config = transformers.CONFIG_MAPPING[model_type].from_dict(values)
    if type(config) not in transformers.AutoModelForCausalLM._model_mapping:
        raise UsageError(f"{name}: {model_type} is not a causal language model")
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
    """Create a causal language model with random weights; on device `meta`, without weights."""
    import torch
    import transformers

    torch.manual_seed(seed)
    with torch.device(device):
        model: transformers.PreTrainedModel = transformers.AutoModelForCausalLM.from_config(
            config, dtype=dtype, attn_implementation=attention
        )
    # Training does not need the KV cache.
    model.config.use_cache = False
    return model


def parameter_count(model: torch.nn.Module) -> tuple[int, int]:
    """Return the numbers of all and of trained parameters, counting each packed 4-bit weight."""
    total = trainable = 0
    for parameter in model.parameters():
        # ZeRO-3 leaves an empty tensor and stores its size separately; bitsandbytes packs values.
        state = getattr(parameter, "quant_state", None)
        if state is not None:
            count = state.shape.numel()
        else:
            count = getattr(parameter, "ds_numel", None) or parameter.numel()
        total += count
        trainable += count if parameter.requires_grad else 0
    return total, trainable


def describe(class_name: str, model: torch.nn.Module, config: Any) -> dict[str, Any]:
    total, trained = parameter_count(model)
    return {
        "model_class": class_name,
        "parameter_count": total,
        "trainable_parameter_count": trained,
        "layer_count": getattr(config, "num_hidden_layers", None),
        "config": config.to_diff_dict() if hasattr(config, "to_diff_dict") else {},
    }


def _check_layers(name: str, layer_count: int | None, total: object) -> None:
    if layer_count is None or not isinstance(total, int):
        return
    if not 1 <= layer_count <= total:
        raise UsageError(f"--layers is {layer_count}, but {name} has only {total} layers")


def _config_values(name: str) -> dict[str, Any]:
    if name in CONFIGS:
        return {**_LLAMA, **dict(zip(_SIZES, CONFIGS[name], strict=True))}
    path = Path(name).expanduser()
    if path.is_dir():
        path = path / "config.json"
    if not path.is_file():
        known = ", ".join(CONFIGS)
        raise UsageError(
            f"--model is {name!r}, which is neither a known model nor a configuration file",
            hint=f"known models: {known}; or pass the path of a config.json or of a model folder",
        )
    try:
        values = parse_json(read_small(path))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: the configuration cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise UsageError(f"{path}: the configuration is not a JSON object")
    return values
