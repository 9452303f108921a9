"""Writes the folder of a Llama with random weights for servers: `_llama_folder.py DIR [LAYERS]`.

Shapes are as in Llama2-7B, or small with the word `tiny`. LightLLM has no option for random
weights.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

_SCALE = 0.02


def main(arguments):
    out = Path(arguments[0])
    layers = int(arguments[1]) if len(arguments) > 1 else 32
    width, inner, heads, words = (256, 688, 4, 32000) if "tiny" in arguments else _LLAMA2_7B
    out.mkdir(parents=True, exist_ok=True)
    _tokenizer(words).save_pretrained(out)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "num_hidden_layers": layers,
        "vocab_size": words,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "float16",
    }
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def drawn(*shape):
        return (torch.randn(*shape, device=device) * _SCALE).half().cpu().contiguous()

    ones = torch.ones(width, dtype=torch.float16)
    tensors = {
        "model.embed_tokens.weight": drawn(words, width),
        "lm_head.weight": drawn(words, width),
        "model.norm.weight": ones,
    }
    save_file(tensors, out / "model-emb.safetensors")
    for number in range(layers):
        name = f"model.layers.{number}"
        tensors = {
            **{f"{name}.self_attn.{part}_proj.weight": drawn(width, width) for part in "qkvo"},
            f"{name}.mlp.gate_proj.weight": drawn(inner, width),
            f"{name}.mlp.up_proj.weight": drawn(inner, width),
            f"{name}.mlp.down_proj.weight": drawn(width, inner),
            f"{name}.input_layernorm.weight": ones,
            f"{name}.post_attention_layernorm.weight": ones.clone(),
        }
        save_file(tensors, out / f"model-l{number:02d}.safetensors")
    # Last, so that a folder with a configuration is complete.
    (out / "config.json").write_text(json.dumps(config, indent=1), "utf-8")


_LLAMA2_7B = (4096, 11008, 32, 32000)


def _tokenizer(word_count):
    """Return a tokenizer of single bytes, filled up to a number of tokens."""
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for letter in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocabulary[letter] = len(vocabulary)
    while len(vocabulary) < word_count:
        vocabulary[f"<t{len(vocabulary)}>"] = len(vocabulary)
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        model_max_length=4096,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
