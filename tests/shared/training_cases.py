"""Training runs of `tracekit collect`: each method and each engine, on a tiny model."""

from pathlib import Path

RANKS = Path(__file__).with_name("training_ranks.py")
"""The program of each rank. Arguments: the folder, and the kind of device."""

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 256,
    "max_position_embeddings": 128,
}
SMALL_LLAMA = {"model_type": "llama", **SIZES}

_PRETRAIN = (
    *("Naive", "R", "F", "Q", "Z1", "Z2", "Z3", "Z2+O", "R+Z3", "Q+Z3"),
    *("GC:powersgd", "GC:topk"),
)
_FINETUNE = ("L", "QL", "LFA", "PT", "QL+R", "L+R+Z3", "QL+Z3+O", "PT+Z3")
# By name: stage, opt, and other arguments than the defaults.
CASES = {
    **{f"pretrain {opt}": {"opt": opt} for opt in _PRETRAIN},
    **{f"finetune {opt}": {"stage": "finetune", "opt": opt} for opt in _FINETUNE},
    "sharded while made": {"opt": "R+Z3"},
    "fsdp2 Z2": {"opt": "Z2", "engine": "fsdp2"},
    "fsdp2 R+Z3": {"opt": "R+Z3", "engine": "fsdp2"},
    "fsdp2 Z3+O": {"opt": "Z3+O", "engine": "fsdp2"},
    "fsdp2 QL+Z3": {"stage": "finetune", "opt": "QL+Z3", "engine": "fsdp2"},
    "deepspeed Naive": {"opt": "Naive", "engine": "deepspeed"},
    "fp16 Naive": {"opt": "Naive", "precision": "fp16"},
    "fp32 Naive": {"opt": "Naive", "precision": "fp32"},
    "fp32 Z2": {"opt": "Z2", "precision": "fp32"},
    "fp32 fsdp2 Z2": {"opt": "Z2", "precision": "fp32", "engine": "fsdp2"},
}
REPEATED = ("finetune L", "deepspeed Naive", "fsdp2 QL+Z3")
"""One run per engine that measures twice."""
GATE = ("pretrain Naive", "pretrain R+Z3", "finetune QL", "fsdp2 R+Z3", "pretrain GC:powersgd")
"""The runs that the gate makes; the others are made nightly."""
_COMMON = {
    "stage": "pretrain",
    "seq_len": 32,
    "fixed_batch": True,
    "learning_rate": 3e-3,
    "warmup": 1,
    "steps": 4,
    "repeats": 1,
    "profile_steps": 1,
}
for _name in REPEATED:
    CASES[_name]["repeats"] = 2


def arguments_of(name, model):
    """Return the arguments of a run with the model configuration at a path."""
    values = {**_COMMON, "model": str(model), **CASES[name]}
    if "PT" in values["opt"]:  # a prompt of a few tokens learns slowly
        values["learning_rate"] = 0.3
    return values
