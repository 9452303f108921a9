"""Writes the folder of a Llama with random weights for servers: `llama_folder.py DIR`.

Shapes are as in Llama2-7B. LightLLM has no option for random weights.
"""

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import LlamaConfig, PreTrainedTokenizerFast

from tracekit.collectors.model import models

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "num_hidden_layers": 32,
    "vocab_size": 32000,
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


def main(out):
    _tokenizer(CONFIG["vocab_size"]).save_pretrained(out)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = models.build(LlamaConfig(**CONFIG), seed=0, dtype=torch.float16, device=device)
    model.save_pretrained(out)
    # Members have the names that LightLLM reads, whatever transformers calls them.
    (out / "config.json").write_text(json.dumps(CONFIG, indent=1), "utf-8")


def _tokenizer(word_count):
    """Return a tokenizer of single bytes, filled up to a number of tokens."""
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for letter in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocabulary[letter] = len(vocabulary)
    while len(vocabulary) < word_count:
        vocabulary[f"<t{len(vocabulary)}>"] = len(vocabulary)
    made = Tokenizer(BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
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
    main(Path(sys.argv[1]))
