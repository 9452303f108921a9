"""Attention in parts computes the same to the bit, and the flash backend says what it is."""

from __future__ import annotations

import copy
import functools
import pickle
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tracekit.collectors.profiler.profile import Profile  # noqa: E402
from tracekit.collectors.ranges import attention_parts  # noqa: E402

TOKENS = torch.arange(2 * 24).reshape(2, 24) % 128
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 128,
}
CONFIGS = {
    "llama": {"num_key_value_heads": 4},
    "llama, grouped heads": {"num_key_value_heads": 2, "attention_dropout": 0.1},
    # Soft-capped logits between the first product and the softmax; layers with a sliding window.
    "gemma2": {"num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8},
    "gpt_neox": {"max_position_embeddings": 64},
}


def build(name: str, attention: str) -> Any:
    torch.manual_seed(0)
    config = transformers.CONFIG_MAPPING[name.partition(",")[0]].from_dict(
        {**SIZES, **CONFIGS[name]}
    )
    config.use_cache = False
    return transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation=attention
    ).train()


def results(model: Any) -> list[Any]:
    torch.manual_seed(1)
    output = model(input_ids=TOKENS, labels=TOKENS)
    output.loss.backward()
    return [output.loss, output.logits, *(parameter.grad for parameter in model.parameters())]


def parts_of(model: Any, path: Path) -> Counter[str]:
    profile = Profile(path / "trace.json", {})
    profile.start()
    model(input_ids=TOKENS)
    profile.stop()
    text = profile.export().read_text()
    return Counter(
        {part: text.count(f'"tk/part/{part}"') for part in ("rope", "bmm0", "softmax", "bmm1")}
    )


@pytest.mark.parametrize("name", CONFIGS)
def test_parts_change_no_bit_of_eager_attention(name: str, tmp_path: Path) -> None:
    plain = results(build(name, "eager"))
    model = build(name, "eager")
    with attention_parts.AttentionRanges(model):
        split = results(model)
        assert parts_of(model, tmp_path) == {"rope": 2, "bmm0": 2, "softmax": 2, "bmm1": 2}
    assert len(plain) == len(split)
    for one, other in zip(plain, split, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


def test_parts_change_no_bit_with_padding() -> None:
    mask = torch.ones_like(TOKENS)
    mask[0, 20:] = 0
    model = build("llama", "eager")
    plain = model(input_ids=TOKENS, attention_mask=mask).logits
    with attention_parts.AttentionRanges(model):
        assert torch.equal(model(input_ids=TOKENS, attention_mask=mask).logits, plain)


def test_rope_functions_are_put_back() -> None:
    model = build("llama", "eager")
    file = sys.modules[type(model).__module__]
    before = file.apply_rotary_pos_emb
    ropes = attention_parts.RopeRanges(model)
    with ropes:
        assert file.apply_rotary_pos_emb is not before
        ropes.attach()
        wrapped = file.apply_rotary_pos_emb
        with attention_parts.RopeRanges(model):
            assert file.apply_rotary_pos_emb is wrapped, "wrapped twice"
    assert file.apply_rotary_pos_emb is before


def test_what_a_program_puts_around_ours_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("llama", "eager")
    file = sys.modules[type(model).__module__]
    with attention_parts.AttentionRanges(model):

        @functools.wraps(ours := file.apply_rotary_pos_emb)
        def theirs(*args: Any, **kwargs: Any) -> Any:
            return ours(*args, **kwargs)

        monkeypatch.setattr(file, "apply_rotary_pos_emb", theirs)
    assert file.apply_rotary_pos_emb is theirs
    monkeypatch.setattr(file, "apply_rotary_pos_emb", ours.__wrapped__)


def test_copies_of_a_model_hold_nothing_of_ours(tmp_path: Path) -> None:
    model = build("llama", "eager")
    before = pickle.dumps(model)
    file = sys.modules[type(model).__module__]
    function = file.eager_attention_forward
    with attention_parts.AttentionRanges(model):
        assert parts_of(model, tmp_path)["bmm0"] == 2
        assert pickle.dumps(model) == before
        assert copy.deepcopy(model).config._attn_implementation == "eager"
        assert file.eager_attention_forward is not function
    assert file.eager_attention_forward is function
