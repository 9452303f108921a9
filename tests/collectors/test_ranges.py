"""Ranges have the right names and change nothing that is computed."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from recorded_modules import (  # noqa: E402
    Block,
    assert_nested,
    enable_checkpointing,
    hook_count,
    lora,
    names,
    recorded,
    spans_of,
    tiny_llama,
    train_step,
)
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from tracekit.collectors import ranges  # noqa: E402
from tracekit.collectors.calls import module_calls  # noqa: E402
from tracekit.collectors.calls.module_paths import class_name, module_paths  # noqa: E402
from tracekit.collectors.profiler.profile import Profile  # noqa: E402
from tracekit.collectors.ranges import attention_parts, modules  # noqa: E402

MODES = ("plain", "non-reentrant", "reentrant")
# Of the ops, counted: checkpoints detach and accumulate outside of all modules.
NEEDED_PCT = 95.0


@pytest.fixture(scope="module")
def llama_traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a trace of two training steps for every kind of checkpointing."""
    folder = tmp_path_factory.mktemp("llama")
    traces = {}
    for mode in MODES:
        model = tiny_llama(mode)
        optimizer = torch.optim.AdamW(model.parameters())
        traces[mode] = folder / f"{mode}.json.gz"
        with (
            ranges.ModuleRanges(model, backward=True),
            attention_parts.AttentionRanges(model),
            Profile(traces[mode], {"model": "tiny"}, warmup=1, active=2) as profile,
        ):
            for number in range(profile.step_count):
                with ranges.step(number):
                    train_step(model)
                    with ranges.phase("optimizer"):
                        optimizer.step()
                        optimizer.zero_grad()
                profile.step()
        assert ranges.open_count() == 0
    return traces


@pytest.mark.parametrize("mode", MODES)
def test_ops_are_on_module_paths(
    mode: str, llama_traces: dict[str, Path], opened: Callable[[Path], tracekit.Trace]
) -> None:
    model = tiny_llama()
    paths = set(module_paths(model).values())
    total: Counter[str] = Counter()
    placed: Counter[str] = Counter()
    for row in opened(llama_traces[mode]).query("modules").to_dicts():
        total[row["phase"]] += row["kernel_count"]
        placed[row["phase"]] += row["kernel_count"] if row["module_path"] in paths else 0
    phases = ["forward", "backward", *(["recompute"] if mode != "plain" else [])]
    assert set(total) - {"optimizer"} == set(phases)
    for phase in phases:
        assert 100 * placed[phase] / total[phase] >= NEEDED_PCT, phase


@pytest.mark.parametrize("mode", MODES)
def test_every_module_has_its_ranges(mode: str, llama_traces: dict[str, Path]) -> None:
    spans = spans_of(llama_traces[mode])
    assert_nested([span for span in spans if span["name"].startswith("tk/")])
    count = Counter(span["name"] for span in spans)
    called = {
        path: class_name(module)
        for module, path in module_paths(tiny_llama()).items()
        if not isinstance(module, nn.ModuleList)
    }
    for path, kind in called.items():
        assert count[f"tk/module/forward/{path}#{kind}"] == 2, path
        is_layer = path.startswith("model.layers.")
        is_recomputed = mode != "plain" and is_layer
        assert count[f"tk/module/recompute/{path}#{kind}"] == 2 * is_recomputed, path
        if is_layer or path in ("model.norm", "lm_head"):
            assert count[f"tk/module/backward/{path}#{kind}"] == 2, path
    for part in ("rope", "bmm0", "softmax", "bmm1"):
        assert count[f"tk/part/{part}"] == 4 * (1 if mode == "plain" else 2), part
    for phase in ("forward", "backward", "optimizer"):
        assert count[f"tk/phase/{phase}"] == 2
    assert count["tk/step/1"] == count["tk/step/2"] == 1


@pytest.mark.parametrize("mode", MODES)
def test_residual_addition_of_a_recomputed_layer_is_its_own(
    mode: str, llama_traces: dict[str, Path], opened: Callable[[Path], tracekit.Trace]
) -> None:
    rows = opened(llama_traces[mode]).query("modules").to_dicts()
    own = {
        row["phase"]: row["kernel_count"] for row in rows if row["module_path"] == "model.layers.1"
    }
    # Two additions a layer, two steps; the early stop of non-reentrant leaves the second out.
    assert own["forward"] == 4
    assert own.get("recompute") == {"plain": None, "non-reentrant": 2, "reentrant": 4}[mode]


@pytest.mark.parametrize("mode", MODES)
def test_nothing_that_is_computed_changes(mode: str) -> None:
    outcomes = []
    for is_ranged in (False, True):
        model = tiny_llama(mode)
        hooks = ranges.ModuleRanges(model, backward=True)
        if is_ranged:
            hooks.attach()
        loss = train_step(model)
        hooks.detach()
        outcomes.append([loss, *(parameter.grad for parameter in model.parameters())])
    assert all(torch.equal(plain, ranged) for plain, ranged in zip(*outcomes, strict=True))


@pytest.mark.parametrize("mode", MODES)
def test_detaching_leaves_nothing(mode: str) -> None:
    model = tiny_llama(mode)
    before = hook_count(model)
    function = getattr(model.model.layers[0], "_gradient_checkpointing_func", None)
    with ranges.ModuleRanges(model, backward=True) as hooks:
        assert model in hooks
        train_step(model)
        hooks.attach()  # a second time is nothing
    assert model not in hooks
    assert hook_count(model) == before
    assert getattr(model.model.layers[0], "_gradient_checkpointing_func", None) is function
    assert ranges.open_count() == 0


def test_a_tensor_with_a_backward_range_is_saved_without_a_word() -> None:
    model = nn.Sequential(Block(), Block())
    given = torch.ones(2, 4, requires_grad=True)
    with ranges.ModuleRanges(model, backward=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.save([model(given), given], io.BytesIO())


def test_an_error_of_ours_is_none_of_the_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(modules, "_open_backward", fail)
    model = nn.Sequential(Block(), Block())
    with ranges.ModuleRanges(model, backward=True):
        model(torch.ones(2, 4, requires_grad=True)).sum().backward()
    assert model[0].inner.weight.grad is not None
    assert ranges.open_count() == 0


def test_checkpointing_that_is_enabled_later_is_seen(tmp_path: Path) -> None:
    model = tiny_llama()
    with ranges.ModuleRanges(model):
        enable_checkpointing(model, is_reentrant=False)
        spans = recorded(tmp_path, lambda: train_step(model))
    assert names(spans).count("tk/module/recompute/model.layers.0#LlamaDecoderLayer") == 1
    assert not [name for name in names(spans) if name.startswith("tk/module/backward/")]


def test_copies_of_a_checkpointing_model_hold_nothing_of_ours() -> None:
    model = tiny_llama()
    enable_checkpointing(model, is_reentrant=False)
    layer = model.model.layers[0]
    function = layer._gradient_checkpointing_func
    with ranges.ModuleRanges(model):
        train_step(model)
        assert layer._gradient_checkpointing_func is not function
        copied = copy.deepcopy(model).model.layers[0]._gradient_checkpointing_func
        filed = pickle.dumps(layer._gradient_checkpointing_func)
    assert type(copied) is type(function)
    assert b"tracekit" not in filed
    read = pickle.loads(filed)
    assert (read.func, read.args, read.keywords) == (function.func, (), function.keywords)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_block_checkpointed_by_hand(tmp_path: Path, use_reentrant: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([Block(), Block()])

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=use_reentrant)
            return x

    model = Model()
    with ranges.ModuleRanges(model, backward=True):
        spans = recorded(
            tmp_path, lambda: model(torch.ones(2, 4, requires_grad=True)).sum().backward()
        )
    found = names(spans)
    for path in ("blocks.0#Block", "blocks.0.inner#Linear", "blocks.1#Block"):
        assert found.count(f"tk/module/forward/{path}") == 1
        assert found.count(f"tk/module/recompute/{path}") == 1
        assert found.count(f"tk/module/backward/{path}") == 1
    assert ranges.open_count() == 0


def test_backward_ranges_lie_inside_of_those_of_their_parents(tmp_path: Path) -> None:
    model = nn.Sequential(Block(), Block())
    with ranges.ModuleRanges(model, backward=True):
        spans = recorded(
            tmp_path, lambda: model(torch.ones(2, 4, requires_grad=True)).sum().backward()
        )
    backward = [name for name in names(spans) if name.startswith("tk/module/backward/")]
    assert backward == [
        "tk/module/backward/Sequential#Sequential",
        "tk/module/backward/1#Block",
        "tk/module/backward/1.inner#Linear",
        "tk/module/backward/0#Block",
        "tk/module/backward/0.inner#Linear",
    ]


def test_a_module_that_is_called_twice_and_one_with_two_names(tmp_path: Path) -> None:
    shared = nn.Linear(4, 4)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = shared
            self.second = shared

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x))

    model = Model()
    with ranges.ModuleRanges(model, backward=True):
        spans = recorded(
            tmp_path, lambda: model(torch.ones(2, 4, requires_grad=True)).sum().backward()
        )
    assert names(spans).count("tk/module/forward/first#Linear") == 2
    assert names(spans).count("tk/module/backward/first#Linear") == 2


def test_a_second_model_has_a_name_of_its_own(tmp_path: Path) -> None:
    model, teacher, shared = nn.Sequential(Block()), nn.Sequential(Block()), nn.ReLU()
    with ranges.ModuleRanges(model) as trees:
        trees.add(teacher)
        trees.add(nn.Sequential(shared, model[0]))  # which is gone at once
        spans = recorded(tmp_path, lambda: model(shared(teacher(torch.ones(2, 4)))))
    assert names(spans) == [
        "tk/module/forward/Sequential_2#Sequential",
        "tk/module/forward/Sequential_2.0#Block",
        "tk/module/forward/Sequential_2.0.inner#Linear",
        "tk/module/forward/Sequential_3.0#ReLU",
        "tk/module/forward/Sequential#Sequential",
        "tk/module/forward/0#Block",
        "tk/module/forward/0.inner#Linear",
    ]


def test_a_module_that_calls_itself(tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: Any, depth: int = 2) -> Any:
            return self(x + 1, depth - 1) if depth else x

    model = Model()
    with ranges.ModuleRanges(model):
        spans = recorded(tmp_path, lambda: model(torch.ones(2, requires_grad=True)))
    assert names(spans) == ["tk/module/forward/Model#Model"] * 3


def test_outputs_without_tensors_and_modules_without_gradients(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def forward(self, x: Any, *, extra: Any = None) -> Any:
            return {"x": x, "none": extra and None, "number": 1}

    model = Odd()
    with ranges.ModuleRanges(model, backward=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        spans = recorded(tmp_path, lambda: model(torch.ones(2, requires_grad=True), extra=[1]))
        with torch.no_grad():
            model(torch.ones(2))
        with torch.inference_mode():
            model(torch.ones(2))
    assert names(spans) == ["tk/module/forward/Odd#Odd"]


def test_outputs_that_are_changed_in_place(tmp_path: Path) -> None:
    # Full backward hooks of torch refuse this.
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
    with ranges.ModuleRanges(model, backward=True):
        spans = recorded(
            tmp_path, lambda: model(torch.ones(2, 4, requires_grad=True)).sum().backward()
        )
    assert "tk/module/backward/0#Linear" in names(spans)


def test_a_wrapper_and_the_model_inside_have_one_name(tmp_path: Path) -> None:
    model = lora()
    with ranges.ModuleRanges(model):
        spans = recorded(tmp_path, lambda: train_step(model))
    roots = {name for name in names(spans) if name.endswith("ForCausalLM")}
    assert roots == {"tk/module/forward/LlamaForCausalLM#LlamaForCausalLM"}


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_compiled_regions_are_left_alone() -> None:
    model = nn.Sequential(Block(), Block())
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with ranges.ModuleRanges(compiled):
        result = compiled(torch.ones(2, 4))
        assert ranges.open_count() == 0
    assert torch.equal(result, model(torch.ones(2, 4)))


def test_calls_inside_of_others_are_heard_only_where_wanted() -> None:
    heard: list[nn.Module] = []

    class Listener:
        wants_inner = False

        def before(self, module: nn.Module, *_: object) -> None:
            heard.append(module)

        def after(self, *_: object) -> None:
            """Hear nothing."""

        def broken(self, error: Exception) -> None:
            raise error

    listener, model = Listener(), nn.Sequential(nn.Linear(1, 1))
    module_calls.listen(listener)
    try:
        model(torch.ones(1, 1))
        assert heard == [model]
        listener.wants_inner = True
        module_calls.wants_changed()
        model(torch.ones(1, 1))
        assert heard == [model, model, model[0]]
    finally:
        module_calls.unlisten(listener)
