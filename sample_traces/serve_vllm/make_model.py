import sys, torch
from tokenizers import Tokenizer, models, pre_tokenizers, decoders
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

out = sys.argv[1]
words = ["<unk>", "<s>", "</s>"] + [f"w{i}" for i in range(2045)]
t = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
PreTrainedTokenizerFast(
    tokenizer_object=t,
    unk_token="<unk>",
    bos_token="<s>",
    eos_token="</s>",
    chat_template="{% for m in messages %}{{ m['content'] }} {% endfor %}",
).save_pretrained(out)
torch.manual_seed(0)
c = LlamaConfig(
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
LlamaForCausalLM(c).save_pretrained(out)
