"""Whether FlashAttention runs is found out with what the model will really compute with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig  # noqa: E402

from tracekit.collectors.model import flash_attention  # noqa: E402
from tracekit.collectors.model.flash_attention import AttentionShape, attention_shape  # noqa: E402
from tracekit.collectors.profiler.profile import Profile  # noqa: E402

CPU = torch.device("cpu")
SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
TOKENS = torch.arange(24).reshape(1, 24) % 64


def config(**members: Any) -> Any:
    return LlamaConfig(**{**SIZES, **members})


def test_the_shape_is_that_of_the_model() -> None:
    assert attention_shape(config(), 24) == AttentionShape(24, 4, 2, 8, 8)
    assert str(attention_shape(config(head_dim=16), 24)) == (
        "24 tokens, 4 heads (2 of keys and values) of 16"
    )
    latent = config()
    latent.qk_nope_head_dim, latent.qk_rope_head_dim, latent.v_head_dim = 16, 8, 12
    assert attention_shape(latent, 7) == AttentionShape(7, 4, 2, 24, 12)
    assert str(attention_shape(latent, 7)).endswith("of 24 (values 12)")


def test_on_a_cpu_it_is_torchs_backend_with_grouped_heads(tmp_path: Path) -> None:
    backend = flash_attention.flash(CPU, torch.float32, config(), 24)
    assert backend == (
        flash_attention.FLASH,
        "torch SDPA, flash",
        "flash-attn does not run on cpu; torch's flash backend is used",
    )
    model = AutoModelForCausalLM.from_config(config(), attn_implementation=backend.implementation)
    profile = Profile(tmp_path / "trace.json", {})
    profile.start()
    model(input_ids=TOKENS, labels=TOKENS).loss.backward()
    profile.stop()
    text = profile.export().read_text()
    assert text.count('"aten::_scaled_dot_product_flash_attention_for_cpu"') == 2


def test_a_type_that_it_does_not_compute_in_is_refused_with_the_reason() -> None:
    backend = flash_attention.flash(CPU, torch.complex64, config(), 24)
    assert (backend.implementation, backend.name) == ("sdpa", "torch SDPA")
    assert (
        "torch's flash backend cannot run 24 tokens, 4 heads (2 of keys and values) of 8: "
        in backend.reason
    )


def test_values_of_another_size_are_refused() -> None:
    """As in multi-head latent attention: a probe with equal sizes would have said yes."""
    latent = config()
    latent.qk_nope_head_dim, latent.qk_rope_head_dim, latent.v_head_dim = 16, 8, 12
    backend = flash_attention.flash(CPU, torch.float32, latent, 24)
    assert backend.implementation == "sdpa"
    assert "of 24 (values 12): " in backend.reason


@pytest.mark.parametrize(
    ("window", "length", "is_masked"), [(8, 24, True), (64, 24, False), (None, 24, False)]
)
def test_the_mask_is_the_one_that_the_model_makes(
    window: int | None, length: int, is_masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window shorter than the sequence needs a mask, and CUDA's flash kernel takes none."""
    seen = []

    def run_once(device: Any, dtype: Any, shape: Any, mask: Any) -> str | None:
        seen.append(mask)
        return None if mask is None else "no mask, please"

    monkeypatch.setattr(flash_attention, "_run_once", run_once)
    mistral = MistralConfig(**SIZES, sliding_window=window)
    backend = flash_attention.flash(CPU, torch.float32, mistral, length)
    assert [mask is not None for mask in seen] == [is_masked]
    assert (backend.implementation == "sdpa") is is_masked
    if is_masked:
        assert seen[0].shape == (1, 1, length, length)
        assert backend.reason.endswith(": with a mask: no mask, please")


def test_every_kind_of_layer_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(flash_attention, "_run_once", lambda *given: seen.append(given[3]))
    mixed = MistralConfig(**SIZES, sliding_window=8)
    mixed.layer_types = ["full_attention", "sliding_attention"]
    flash_attention.flash(CPU, torch.float32, mixed, 24)
    assert [mask is not None for mask in seen] == [False, True]


def test_want_of_memory_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(flash_attention, "_flash_attention", full)
    assert flash_attention.flash(CPU, torch.float32, config(), 24).name == "torch SDPA, flash"


def test_masks_are_made_as_transformers_4_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import masking_utils

    def of_4(
        config: Any,
        input_embeds: Any,
        attention_mask: Any,
        cache_position: Any,
        past_key_values: Any,
    ) -> Any:
        return [*input_embeds.shape[:2]], cache_position.tolist()

    monkeypatch.setattr(masking_utils, "create_causal_mask", of_4)
    shape = attention_shape(LlamaConfig(**SIZES), 3)
    made = flash_attention._masks(CPU, torch.float32, shape, LlamaConfig(**SIZES))
    assert made == [([1, 3], [0, 1, 2])]
