"""Models by name, the choice of FlashAttention, and DeepSpeed's settings for a model."""

from unittest.mock import Mock

import pytest
import training_cases

from tracekit.collectors.model import models
from tracekit.errors import UsageError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tracekit.collectors.model import flash_attention  # noqa: E402
from tracekit.collectors.model.flash_attention import AttentionShape, attention_shape  # noqa: E402
from tracekit.collectors.profiler.profile import Profile  # noqa: E402
from tracekit.collectors.training.engines import deepspeed as engine  # noqa: E402


@pytest.mark.parametrize(
    ("name", "parameter_count"),
    [
        ("tiny", 4_212_992),
        ("llama2-7b", 6_738_415_616),
        ("llama2-13b", 13_015_864_320),
        ("llama2-70b", 68_976_648_192),
    ],
)
def test_sizes_are_those_of_the_published_models(name, parameter_count):
    model = models.build(models.model_config(name), seed=0, dtype=torch.bfloat16, device="meta")
    assert models.parameter_count(model) == (parameter_count, parameter_count)


def test_layers_cut_a_model_down():
    config = models.model_config("llama2-7b", 4)
    model = models.build(config, seed=0, dtype=torch.bfloat16, device="meta")
    per_layer = (6_738_415_616 - 2 * 32_000 * 4096 - 4096) // 32
    assert models.parameter_count(model)[0] == 2 * 32_000 * 4096 + 4096 + 4 * per_layer


def test_a_seed_repeats_the_weights(small_model):
    config = models.model_config(str(small_model))
    one, same, other = (
        next(models.build(config, seed=seed, dtype=torch.float32).parameters())
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_a_folder_and_its_configuration_are_the_same_model(tmp_path, small_model):
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_bytes(small_model.read_bytes())
    by_folder = models.model_config(str(folder)).to_dict()
    assert by_folder == models.model_config(str(folder / "config.json")).to_dict()
    assert models.display_name(str(folder)) == "my-model"
    assert models.display_name(str(small_model), 2) == "small-2layers"


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"model_type": "tetris"}', '{"hidden_size": 3}', '{"model_type": "clip"}'],
)
def test_a_configuration_of_no_model_is_refused(content, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(content, "utf-8")
    with pytest.raises(UsageError) as caught:
        models.model_config(str(path))
    assert caught.value.message.startswith(str(path))


CPU = torch.device("cpu")
SIZES = training_cases.SIZES | {"num_key_value_heads": 2}
TOKENS = torch.arange(24).reshape(1, 24) % 64


def config(**members):
    return transformers.LlamaConfig(**{**SIZES, **members})


def test_the_shape_is_that_of_the_model():
    assert attention_shape(config(), 24) == AttentionShape(24, 4, 2, 16, 16)
    assert str(attention_shape(config(head_dim=8), 24)) == (
        "24 tokens, 4 heads (2 for keys and values) of 8"
    )
    latent = config()
    latent.qk_nope_head_dim, latent.qk_rope_head_dim, latent.v_head_dim = 16, 8, 12
    assert attention_shape(latent, 7) == AttentionShape(7, 4, 2, 24, 12)
    assert str(attention_shape(latent, 7)).endswith("of 24 (values 12)")


def test_on_a_cpu_it_is_torchs_backend_with_grouped_heads(tmp_path):
    backend = flash_attention.flash(CPU, torch.float32, config(), 24)
    assert backend == (
        flash_attention.FLASH,
        "torch SDPA, flash",
        "flash-attn does not support cpu; torch's flash backend is used",
    )
    model = transformers.AutoModelForCausalLM.from_config(
        config(), attn_implementation=backend.implementation
    )
    profile = Profile(tmp_path / "trace.json", {})
    profile.start()
    model(input_ids=TOKENS, labels=TOKENS).loss.backward()
    profile.stop()
    text = profile.export().read_text()
    assert text.count('"aten::_scaled_dot_product_flash_attention_for_cpu"') == 2


def test_types_and_sizes_that_it_cannot_compute_are_refused():
    backend = flash_attention.flash(CPU, torch.complex64, config(), 24)
    assert (backend.implementation, backend.name) == ("sdpa", "torch SDPA")
    assert "24 tokens, 4 heads (2 for keys and values) of 16: " in backend.reason
    # As in multi-head latent attention, where a probe with equal sizes would succeed.
    latent = config()
    latent.qk_nope_head_dim, latent.qk_rope_head_dim, latent.v_head_dim = 16, 8, 12
    backend = flash_attention.flash(CPU, torch.float32, latent, 24)
    assert backend.implementation == "sdpa"
    assert "of 24 (values 12): " in backend.reason


@pytest.mark.parametrize(
    ("window", "length", "is_masked"), [(8, 24, True), (64, 24, False), (None, 24, False)]
)
def test_the_mask_is_the_one_that_the_model_makes(window, length, is_masked, monkeypatch):
    """A window shorter than the sequence needs a mask, which flash on CUDA does not support."""
    seen = []

    def run_once(device, dtype, shape, mask):
        seen.append(mask)
        return None if mask is None else "no mask, please"

    monkeypatch.setattr(flash_attention, "_run_once", run_once)
    mistral = transformers.MistralConfig(**SIZES, sliding_window=window)
    backend = flash_attention.flash(CPU, torch.float32, mistral, length)
    assert [mask is not None for mask in seen] == [is_masked]
    assert (backend.implementation == "sdpa") is is_masked
    if is_masked:
        assert seen[0].shape == (1, 1, length, length)
        assert backend.reason.endswith(": with a mask: no mask, please")


def test_every_kind_of_layer_is_tried(monkeypatch):
    seen = []
    monkeypatch.setattr(flash_attention, "_run_once", lambda *given: seen.append(given[3]))
    mixed = transformers.MistralConfig(**SIZES, sliding_window=8)
    mixed.layer_types = ["full_attention", "sliding_attention"]
    flash_attention.flash(CPU, torch.float32, mixed, 24)
    assert [mask is not None for mask in seen] == [False, True]


def test_want_of_memory_is_no_refusal(monkeypatch):
    full = Mock(
        side_effect=torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    )
    monkeypatch.setattr(flash_attention, "_flash_attention", full)
    assert flash_attention.flash(CPU, torch.float32, config(), 24).name == "torch SDPA, flash"


def test_masks_are_made_as_transformers_4_names_them(monkeypatch):

    def of_4(config, input_embeds, attention_mask, cache_position, past_key_values):
        return [*input_embeds.shape[:2]], cache_position.tolist()

    monkeypatch.setattr("transformers.masking_utils.create_causal_mask", of_4)
    shape = attention_shape(transformers.LlamaConfig(**SIZES), 3)
    made = flash_attention._masks(CPU, torch.float32, shape, transformers.LlamaConfig(**SIZES))
    assert made == [([1, 3], [0, 1, 2])]


def builder_of(*, compatible=True, error=None):
    made = Mock(is_compatible=Mock(return_value=compatible), load=Mock(side_effect=error))
    made.name = "fused_adam"
    return Mock(return_value=made)


@pytest.mark.parametrize(
    ("home", "builder", "reason"),
    [
        ("/cuda", builder_of(), None),
        (None, builder_of(), "no CUDA toolkit"),
        ("/cuda", builder_of(compatible=False), ""),
        (
            "/cuda",
            builder_of(error=RuntimeError("Error building extension 'fused_adam'\nnvcc: fatal")),
            "RuntimeError: Error building extension 'fused_adam'",
        ),
    ],
)
def test_a_failed_compilation_is_noted(home, builder, reason, monkeypatch):
    builders = pytest.importorskip("deepspeed.ops.op_builder")
    from torch.utils import cpp_extension

    monkeypatch.setattr(cpp_extension, "CUDA_HOME", home)
    monkeypatch.setattr(builders, "FusedAdamBuilder", builder)
    notes = []
    assert engine._can_build(False, notes) is (reason is None)
    assert len(notes) == (reason is not None)
    assert all("fused_adam" in note and str(reason) in note for note in notes)


def test_a_small_model_gets_small_buckets():
    model = torch.nn.Linear(10, 10)
    sizes = {"reduce_bucket_size": 110, "allgather_bucket_size": 110}
    assert engine._sizes(model, 2) == sizes
    assert engine._sizes(model, 3).items() > sizes.items()
    # A large one keeps the defaults.
    model = torch.nn.Linear(30_000, 20_000, device="meta")
    assert engine._sizes(model, 3) == {}
