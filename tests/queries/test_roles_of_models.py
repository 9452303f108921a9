"""Roles in small models of transformers, which run under torch's profiler as people run it.

Which role a module has is told by its qualified name, from a table by hand; the profiler knows
classes only. The calls of modules in the trace are those of the models, in their order.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tracekit.collectors import ranges  # noqa: E402

SIZES = {
    "vocab_size": 64,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
}
SEQ2SEQ = {
    "vocab_size": 64,
    "d_model": 16,
    **{f"{side}_layers": 1 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 2 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 24 for side in ("encoder", "decoder")},
}
TOKENS = torch.arange(16).reshape(1, 16) + 3
GPT = {"vocab_size": 64, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32}
T5 = {"vocab_size": 64, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
OPT = {**SIZES, "ffn_dim": 24, "word_embed_proj_dim": 16}
VIT = {**SIZES, "image_size": 16, "patch_size": 8}
EXPERTS = {
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 8,
    "num_key_value_heads": 2,
    "head_dim": 8,
}

# Class of the model, that of its configuration, and what that is given.
MODELS: list[tuple[str, str, dict[str, Any]]] = [
    ("BertModel", "BertConfig", SIZES),
    ("DistilBertModel", "DistilBertConfig", {"dim": 16, "n_layers": 1, "n_heads": 2}),
    ("ViTModel", "ViTConfig", VIT),
    ("T5ForConditionalGeneration", "T5Config", T5),
    ("GPT2LMHeadModel", "GPT2Config", GPT),
    ("GPTNeoXForCausalLM", "GPTNeoXConfig", SIZES),
    ("LlamaForCausalLM", "LlamaConfig", SIZES),
    ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {**SIZES, **EXPERTS}),
    ("FalconForCausalLM", "FalconConfig", SIZES),
    ("OPTForCausalLM", "OPTConfig", OPT),
    ("BartForConditionalGeneration", "BartConfig", SEQ2SEQ),
]
# The end of a qualified name, and the role of the module.
ROLES = [
    (r"norm\w*|ln_\w+", "RMSNorm"),
    (r"(word|position|token_type)_embeddings|projection|embed_\w+|shared|w[tp]e", "Embedding"),
    (r"(query|key|value|query_key_value|[qkv]_(proj|lin)|Attention\.[qkv]|c_attn)", "QKV"),
    (r"attention\.(output\.)?dense|(o|out)_proj|out_lin|Attention\.o|attn\.c_proj", "Output"),
    (r"(intermediate|[0-9]\.output)\.dense|(mlp|ffn|DenseReluDense)\.\w+|fc[12]", "MLP"),
    (r"lm_head|embed_out", "Linear"),
]


def role_of(name: str) -> str | None:
    for pattern, role in ROLES:
        if re.search(rf"(?i:(?:^|[._]))(?:{pattern})$", name, re.IGNORECASE):
            return role
    return None


def run(model: Any) -> None:
    if "ViT" in type(model).__name__:
        model(pixel_values=torch.ones(1, 3, 16, 16))
    elif model.config.is_encoder_decoder:
        model(input_ids=TOKENS, decoder_input_ids=TOKENS)
    else:
        model(input_ids=TOKENS)


def profiled(path: Path, with_stack: bool, work: Callable[[], None]) -> list[dict[str, Any]]:
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, with_stack=with_stack) as profile:
        work()
    profile.export_chrome_trace(str(path))
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return events


def paths_of_calls(events: list[dict[str, Any]], order: list[str]) -> dict[str, str]:
    """Return the qualified name of each module by its path of classes."""
    calls = [e for e in events if e["name"].startswith("nn.Module: ")]
    assert len(calls) == len(order)
    found: dict[str, str] = {}
    around: list[tuple[float, str]] = []
    for event, name in zip(sorted(calls, key=lambda e: e["ts"]), order, strict=True):
        while around and around[-1][0] <= event["ts"]:
            around.pop()
        own = event["name"].removeprefix("nn.Module: ")
        around.append((event["ts"] + event["dur"], f"{around[-1][1]}/{own}" if around else own))
        found[around[-1][1]] = name
    return found


def wrong_roles(path: Path, names: dict[str, str] | None) -> tuple[list[str], int]:
    """Return what the product says otherwise than the table, and how many modules were held."""
    with tracekit.open(path, cache=False) as trace:
        rows = trace.sql(
            "SELECT DISTINCT m.path, w.role FROM role_work AS w "
            "INNER JOIN module AS m ON w.trace_id = m.trace_id AND w.module_id = m.module_id"
        ).to_dicts()
    wrong = []
    held = 0
    for row in rows:
        name = names[row["path"]] if names is not None else row["path"]
        role = role_of(name)
        held += role is not None
        if role not in (None, row["role"]):
            wrong.append(f"{name}: {row['role']}")
    return wrong, held


def test_roles_of_small_models(tmp_path: Path) -> None:
    torch.manual_seed(0)
    models = [
        getattr(transformers, model)(getattr(transformers, config)(**given)).eval()
        for model, config, given in MODELS
    ]
    order: list[str] = []
    hooks = [
        module.register_forward_pre_hook(lambda *_, name=f"{number}.{name}": order.append(name))
        for number, model in enumerate(models)
        for name, module in model.named_modules()
    ]
    with torch.no_grad():
        for model in models:
            run(model)
        for hook in hooks:
            hook.remove()

        def plain() -> None:
            for model in models:
                run(model)

        def with_ranges() -> None:
            named = ranges.ModuleRanges(models[0])
            for model in models[1:]:
                named.add(model)
            with named:
                plain()

        classes = tmp_path / "classes.json.gz"
        names = paths_of_calls(profiled(classes, True, plain), order)
        qualified = tmp_path / "names.json.gz"
        profiled(qualified, False, with_ranges)
    for path, known in ((classes, names), (qualified, None)):
        wrong, held = wrong_roles(path, known)
        assert wrong == []
        assert held > 120
