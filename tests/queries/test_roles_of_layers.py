"""Roles in layers of real models, from the module names in a trace.

Each layer is recorded once with class names, like torch.profiler with stacks, and once with
qualified names, like tracekit's collector. A line is a module call: its class, its name in the
parent module, and its work with the role according to the model's source. `?`: with class names,
only the position among modules shows the role; `??`: also with qualified names.
"""

from collections import Counter

import pytest
from cases_as_ranks import Cases
from traces_by_hand import call, kernel, span

LAYERS = {
    "BERT": """
        BertLayer layer.0
          BertAttention attention
            BertSelfAttention self
              Linear query QKV?
              Linear key QKV?
              Linear value QKV?
            BertSelfOutput output
              Linear dense Output
              Dropout dropout other_in_attention
              LayerNorm LayerNorm RMSNorm
          BertIntermediate intermediate
            Linear dense MLP
            GELUActivation intermediate_act_fn MLP
          BertOutput output
            Linear dense MLP
            Dropout dropout other
            LayerNorm LayerNorm RMSNorm
    """,
    "an output projection in a sibling whose name does not say so": """
        Layer layer.0
          WindowAttention attn
            SelfAttention inner
              Linear theta QKV??
              Linear phi QKV??
              Linear g QKV??
            Merge merge
              Linear mix Output??
    """,
    "ALBERT": """
        AlbertLayer albert_layers.0
          AlbertAttention attention
            Linear query QKV?
            Linear key QKV?
            Linear value QKV?
            Linear dense Output?
            LayerNorm LayerNorm RMSNorm
          Linear ffn MLP?
          NewGELUActivation activation MLP??
          Linear ffn_output MLP?
          LayerNorm full_layer_layer_norm RMSNorm
    """,
    "DistilBERT": """
        TransformerBlock layer.0
          MultiHeadSelfAttention attention
            Linear q_lin QKV?
            Linear k_lin QKV?
            Linear v_lin QKV?
            Linear out_lin Output?
          FFN ffn
            Linear lin1 MLP
            Linear lin2 MLP
    """,
    "T5": """
        T5Block block.0
          T5LayerSelfAttention layer.0
            T5LayerNorm layer_norm RMSNorm
            T5Attention SelfAttention
              Linear q QKV?
              Linear k QKV?
              Linear v QKV?
              Embedding relative_attention_bias Embedding
              Linear o Output?
          T5LayerFF layer.1
            T5DenseActDense DenseReluDense
              Linear wi MLP
              Linear wo MLP
            Dropout dropout other
    """,
    "GPT-2": """
        GPT2LMHeadModel model
          GPT2Block h.0
            LayerNorm ln_1 RMSNorm
            GPT2Attention attn
              Conv1D c_attn QKV?
              Conv1D c_proj Output?
            GPT2MLP mlp
              Conv1D c_fc MLP
              Conv1D c_proj MLP
          Linear lm_head Linear
    """,
    "GPT-NeoX": """
        GPTNeoXLayer layers.0
          LayerNorm input_layernorm RMSNorm
          LayerNorm post_attention_layernorm RMSNorm
          GPTNeoXAttention attention
            Linear query_key_value QKV?
            Linear dense Output?
          GPTNeoXMLP mlp
            Linear dense_h_to_4h MLP
            Linear dense_4h_to_h MLP
    """,
    "BART": """
        BartEncoderLayer layers.0
          BartAttention self_attn
            Linear q_proj QKV?
            Linear k_proj QKV?
            Linear v_proj QKV?
            Linear out_proj Output?
          LayerNorm self_attn_layer_norm RMSNorm
          Linear fc1 MLP??
          GELUActivation activation_fn MLP??
          Linear fc2 MLP??
          LayerNorm final_layer_norm RMSNorm
    """,
    "Falcon": """
        FalconDecoderLayer h.0
          FalconAttention self_attention
            FalconLinear query_key_value QKV?
            FalconLinear dense Output?
          FalconMLP mlp
            FalconLinear dense_h_to_4h MLP
    """,
    "OPT, whose MLP has no module": """
        OPTDecoderLayer layers.0
          LayerNorm self_attn_layer_norm RMSNorm
          OPTAttention self_attn
            Linear k_proj QKV?
            Linear v_proj QKV?
            Linear q_proj QKV?
            Linear out_proj Output?
          LayerNorm final_layer_norm RMSNorm
          Linear fc1 MLP??
          ReLU activation_fn MLP??
          Linear fc2 MLP??
          Dropout dropout other
    """,
    "an attention block with all in it": """
        ResidualAttentionBlock blocks.0
          MultiHeadAttention attn
            Linear query QKV?
            Linear key QKV?
            Linear value QKV?
            Linear out Output??
          Sequential net
            Linear 0 MLP??
            GELU 1 MLP??
            Linear 2 MLP??
    """,
    "Qwen3 MoE, in whose names all is MoE": """
        Qwen3MoeForCausalLM root
          Qwen3MoeModel model
            Embedding embed_tokens Embedding
            Qwen3MoeDecoderLayer layers.0
              Qwen3MoeAttention self_attn
                Linear q_proj QKV?
                Qwen3MoeRMSNorm q_norm RMSNorm
                Linear k_proj QKV?
                Linear v_proj QKV?
                Linear o_proj Output?
              Qwen3MoeSparseMoeBlock mlp
                Qwen3MoeTopKRouter gate MLP
                Qwen3MoeExperts experts MLP
    """,
    "LoRA": """
        LlamaDecoderLayer layers.0
          LlamaAttention self_attn
            Linear q_proj
              Linear base_layer QKV?
              Dropout lora_dropout.default QKV?
              Linear lora_A.default QKV?
              Linear lora_B.default QKV?
            Linear k_proj QKV?
            Linear o_proj
              Linear base_layer Output?
              Linear lora_A.default Output?
              Linear lora_B.default Output?
    """,
    "Mamba, which has projections and no attention": """
        MambaBlock layers.0
          MambaRMSNorm norm RMSNorm
          MambaMixer mixer
            Linear in_proj other
            Linear out_proj other
    """,
    "one Linear, of which nothing tells what it is": """
        Layer layers.0
          Attention attn
            Linear mix other_in_attention
          Linear after other
    """,
}


def recorded(text, *, by_class):
    """Return the events of the calls, and the known and inferred time of each role, ns."""
    events = []
    expected = Counter()
    open_calls = []  # depth, category, name, start
    paths = []
    numbers = Counter()
    now = 0.0

    def close(depth):
        nonlocal now
        while open_calls and open_calls[-1][0] >= depth:
            _, category, name, start = open_calls.pop()
            paths.pop()
            now += 1
            events.append(span(category, name, start, now))

    lines = [line for line in text.splitlines() if line.strip()]
    for correlation, line in enumerate(lines, start=1):
        depth = len(line) - len(line.lstrip())
        kind, name, *role = line.split()
        close(depth)
        paths.append(f"{paths[-1]}.{name}" if paths else name)
        label = f"nn.Module: {kind}_{numbers[kind]}"
        numbers[kind] += 1
        if by_class:
            open_calls.append((depth, "python_function", label, now))
        else:
            label = f"tk/module/forward/{paths[-1]}#{kind}"
            open_calls.append((depth, "user_annotation", label, now))
        if role:
            events += [
                call(now + 1, now + 2, correlation),
                kernel("k", 1000 + 100 * correlation, 1000 + 101 * correlation, correlation),
            ]
            is_inferred = role[0].endswith("??") or (role[0].endswith("?") and by_class)
            expected[role[0].rstrip("?").replace("_", " "), is_inferred] += 1000 * correlation
        now += 3
    close(0)
    return events, expected


CASES = Cases()
asked = CASES.fixture()
RECORDED = {
    (layer, by_class): (CASES.add(events), expected)
    for layer, text in LAYERS.items()
    for by_class in (True, False)
    for events, expected in [recorded(text, by_class=by_class)]
}


@pytest.mark.parametrize("by_class", [True, False], ids=["classes", "names"])
@pytest.mark.parametrize("layer", LAYERS)
def test_roles_of_a_layer(asked, layer, by_class):
    rank, expected = RECORDED[layer, by_class]
    found = Counter()
    for row in asked.rows(rank, "roles"):
        found[row["role"], True] += row["inferred_ns"]
        found[row["role"], False] += row["kernel_ns"] - row["inferred_ns"]
    assert +found == expected
