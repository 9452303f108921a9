"""Modules have the paths that people know, whatever wraps the model."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from recorded_modules import Block, lora, tiny_llama  # noqa: E402
from torch import nn  # noqa: E402

from tracekit.collectors.calls.module_paths import module_paths  # noqa: E402


def test_paths_are_those_of_the_model_whatever_wraps_it() -> None:
    plain = set(module_paths(tiny_llama()).values())
    assert {"LlamaForCausalLM", "model", "model.layers.1.mlp.up_proj", "lm_head"} <= plain

    class Wrapper(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

    class Engine(Wrapper):
        def __init__(self, module: nn.Module) -> None:
            super().__init__(module)
            self.other = nn.Identity()

        def backward(self) -> None: ...
        def step(self) -> None: ...

    assert set(module_paths(Wrapper(tiny_llama())).values()) == plain
    assert set(module_paths(Wrapper(Wrapper(tiny_llama()))).values()) == plain
    assert set(module_paths(Engine(tiny_llama())).values()) == {*plain, "other"}


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_paths_of_compiled_models() -> None:
    compiled = torch.compile(nn.Sequential(Block()), backend="eager")
    assert set(module_paths(compiled).values()) == {"Sequential", "0", "0.inner"}


def test_paths_of_checkpoint_wrappers() -> None:
    wrapper = pytest.importorskip(
        "torch.distributed.algorithms._checkpoint.checkpoint_wrapper"
    ).checkpoint_wrapper
    model = nn.Sequential(wrapper(Block()), nn.ReLU())
    assert set(module_paths(model).values()) == {"Sequential", "0", "0.inner", "1"}


def test_paths_of_lora_models() -> None:
    plain = set(module_paths(tiny_llama()).values())
    paths = set(module_paths(lora()).values())
    q_proj = "model.layers.0.self_attn.q_proj"
    assert plain <= paths
    assert {f"{q_proj}.base_layer", f"{q_proj}.lora_A.default"} <= paths - plain
    assert all(".self_attn.q_proj." in path for path in paths - plain)


def test_methods_of_the_names_that_peft_has_are_not_called() -> None:
    class Mine(Block):
        def get_base_model(self, name: str) -> None:
            raise AssertionError(name)

    assert set(module_paths(Mine()).values()) == {"Mine", "inner"}


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_paths_of_models_with_prompt_tuning() -> None:
    peft = pytest.importorskip("peft")
    plain = set(module_paths(tiny_llama()).values())
    config = peft.PromptTuningConfig(num_virtual_tokens=2, task_type="CAUSAL_LM")
    paths = set(module_paths(peft.get_peft_model(tiny_llama(), config)).values())
    assert plain <= paths
    assert {path.partition(".")[0] for path in paths - plain} == {"prompt_encoder"}
