"""The models by name: right sizes, random weights, no download."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tracekit.collectors.model import models
from tracekit.errors import UsageError

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.mark.parametrize(
    ("name", "parameter_count"),
    [
        ("tiny", 4_212_992),
        ("llama2-7b", 6_738_415_616),
        ("llama2-13b", 13_015_864_320),
        ("llama2-70b", 68_976_648_192),
    ],
)
def test_sizes_are_those_of_the_published_models(name: str, parameter_count: int) -> None:
    model = models.build(models.model_config(name), seed=0, dtype=torch.bfloat16, device="meta")
    assert models.parameter_count(model) == (parameter_count, parameter_count)


def test_layers_cut_a_model_down() -> None:
    config = models.model_config("llama2-7b", 4)
    model = models.build(config, seed=0, dtype=torch.bfloat16, device="meta")
    per_layer = (6_738_415_616 - 2 * 32_000 * 4096 - 4096) // 32
    assert models.parameter_count(model)[0] == 2 * 32_000 * 4096 + 4096 + 4 * per_layer


def test_a_seed_repeats_the_weights(small_model: Path) -> None:
    config = models.model_config(str(small_model))
    one, same, other = (
        next(models.build(config, seed=seed, dtype=torch.float32).parameters())
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_a_folder_and_its_configuration_are_the_same_model(
    tmp_path: Path, small_model: Path
) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_bytes(small_model.read_bytes())
    by_folder = models.model_config(str(folder)).to_dict()
    assert by_folder == models.model_config(str(folder / "config.json")).to_dict()
    assert models.display_name(str(folder)) == "my-model"
    assert models.display_name(str(small_model), 2) == "small-2layers"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "the configuration cannot be read"),
        ("[]", "the configuration is no JSON object"),
        (json.dumps({"model_type": "tetris"}), "knows no model_type 'tetris'"),
        (json.dumps({"hidden_size": 3}), "knows no model_type None"),
        (json.dumps({"model_type": "clip"}), "clip is no causal language model"),
    ],
)
def test_a_configuration_of_no_model_is_refused(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(content, "utf-8")
    with pytest.raises(UsageError, match=message) as caught:
        models.model_config(str(path))
    assert caught.value.message.startswith(str(path))


def test_more_layers_than_there_are_is_refused() -> None:
    with pytest.raises(UsageError, match="--layers is 5, but tiny has 4 layers"):
        models.model_config("tiny", 5)
