"""Writes a Llama of 4.2 M random weights and a tokenizer of one token per word to a folder.

python make_model.py FOLDER
"""

import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

folder = sys.argv[1]
words = ["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(2045))]
vocabulary = {word: number for number, word in enumerate(words)}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
PreTrainedTokenizerFast(
    tokenizer_object=tokenizer,
    unk_token="<unk>",
    bos_token="<s>",
    eos_token="</s>",
    chat_template="{% for m in messages %}{{ m['content'] }} {% endfor %}",
).save_pretrained(folder)
torch.manual_seed(0)
config = LlamaConfig(
    hidden_size=256,
    intermediate_size=688,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=8,
    vocab_size=2048,
    max_position_embeddings=2048,
    bos_token_id=1,
    eos_token_id=2,
    dtype="float32",
)
LlamaForCausalLM(config).save_pretrained(folder)
