"""Ranges have the right names, change no result, and are closed after errors."""

import copy
import functools
import importlib.util
import io
import pickle
import sys
import threading
import warnings
from collections import Counter
from unittest.mock import Mock, call

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from recorded_modules import (  # noqa: E402
    TOKENS,
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
from torch import fx, nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from training_cases import SIZES  # noqa: E402

from tracekit.collectors import ranges  # noqa: E402
from tracekit.collectors.calls import module_calls, training_hooks  # noqa: E402
from tracekit.collectors.calls.module_paths import class_name, module_paths  # noqa: E402
from tracekit.collectors.loop.watch import LoopWatch, Observer  # noqa: E402
from tracekit.collectors.profiler.profile import Profile  # noqa: E402
from tracekit.collectors.ranges import attention_parts, modules, open_ranges  # noqa: E402

REENTRANT = pytest.param("reentrant", marks=pytest.mark.nightly("one checkpoint is in the gate"))
MODES = ("plain", "non-reentrant", REENTRANT)
# Share of ops: checkpoints detach and accumulate outside all modules.
NEEDED_PCT = 95.0


@pytest.fixture(scope="module")
def llama_trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")

    @functools.cache
    def trace_of(mode):
        model = tiny_llama(mode)
        optimizer = torch.optim.AdamW(model.parameters())
        path = folder / f"{mode}.json.gz"
        with (
            ranges.ModuleRanges(model, backward=True),
            attention_parts.AttentionRanges(model),
            Profile(path, {"model": "tiny"}, warmup=1, active=2) as profile,
        ):
            for number in range(profile.step_count):
                with ranges.step(number):
                    train_step(model)
                    with ranges.phase("optimizer"):
                        optimizer.step()
                        optimizer.zero_grad()
                profile.step()
        assert ranges.open_count() == 0
        return path

    return trace_of


@pytest.mark.parametrize("mode", MODES)
def test_ops_are_on_module_paths(mode, llama_trace, opened):
    model = tiny_llama()
    paths = set(module_paths(model).values())
    total = Counter()
    placed = Counter()
    for row in opened(llama_trace(mode)).query("modules").to_dicts():
        total[row["phase"]] += row["kernel_count"]
        placed[row["phase"]] += row["kernel_count"] if row["module_path"] in paths else 0
    phases = ["forward", "backward", *(["recompute"] if mode != "plain" else [])]
    assert set(total) - {"optimizer"} == set(phases)
    for phase in phases:
        assert 100 * placed[phase] / total[phase] >= NEEDED_PCT, phase


@pytest.mark.parametrize("mode", MODES)
def test_every_module_has_its_ranges(mode, llama_trace):
    spans = spans_of(llama_trace(mode))
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
def test_residual_addition_of_a_recomputed_layer_is_its_own(mode, llama_trace, opened):
    rows = opened(llama_trace(mode)).query("modules").to_dicts()
    own = {
        row["phase"]: row["kernel_count"] for row in rows if row["module_path"] == "model.layers.1"
    }
    # Two additions a layer, two steps; the early stop of non-reentrant leaves the second out.
    assert own["forward"] == 4
    assert own.get("recompute") == {"plain": None, "non-reentrant": 2, "reentrant": 4}[mode]


@pytest.mark.parametrize("mode", MODES)
def test_results_are_unchanged_and_no_hook_remains(mode):
    results = []
    for is_ranged in (False, True):
        model = tiny_llama(mode)
        before = hook_count(model)
        function = getattr(model.model.layers[0], "_gradient_checkpointing_func", None)
        hooks = ranges.ModuleRanges(model, backward=True)
        if is_ranged:
            hooks.attach()
            hooks.attach()  # attaching twice is allowed
            assert model in hooks
        loss = train_step(model)
        hooks.detach()
        assert model not in hooks
        assert hook_count(model) == before
        assert getattr(model.model.layers[0], "_gradient_checkpointing_func", None) is function
        results.append([loss, *(parameter.grad for parameter in model.parameters())])
    assert all(torch.equal(plain, ranged) for plain, ranged in zip(*results, strict=True))
    assert ranges.open_count() == 0


def test_a_tensor_with_a_backward_range_can_be_saved():
    model = nn.Sequential(Block(), Block())
    given = torch.ones(2, 4, requires_grad=True)
    with ranges.ModuleRanges(model, backward=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.save([model(given), given], io.BytesIO())


def test_an_error_in_tracekit_does_not_reach_the_backward_pass(monkeypatch):
    monkeypatch.setattr(modules, "_open_backward", Mock(side_effect=RuntimeError))
    model = nn.Sequential(Block(), Block())
    with ranges.ModuleRanges(model, backward=True):
        model(torch.ones(2, 4, requires_grad=True)).sum().backward()
    assert model[0].inner.weight.grad is not None
    assert ranges.open_count() == 0


def test_checkpointing_that_is_enabled_later(tmp_path):
    """Recomputation is in ranges, and copies of the model contain nothing from tracekit."""
    model = tiny_llama()
    with ranges.ModuleRanges(model):
        enable_checkpointing(model, is_reentrant=False)
        layer = model.model.layers[0]
        function = layer._gradient_checkpointing_func
        spans = recorded(tmp_path, lambda: train_step(model))
        assert layer._gradient_checkpointing_func is not function
        copied = copy.deepcopy(model).model.layers[0]._gradient_checkpointing_func
        filed = pickle.dumps(layer._gradient_checkpointing_func)
    assert names(spans).count("tk/module/recompute/model.layers.0#LlamaDecoderLayer") == 1
    assert not [name for name in names(spans) if name.startswith("tk/module/backward/")]
    assert type(copied) is type(function)
    assert b"tracekit" not in filed
    read = pickle.loads(filed)
    assert (read.func, read.args, read.keywords) == (function.func, (), function.keywords)


def backward_names(tmp_path, model):
    with ranges.ModuleRanges(model, backward=True):
        spans = recorded(
            tmp_path, lambda: model(torch.ones(2, 4, requires_grad=True)).sum().backward()
        )
    return names(spans)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_block_checkpointed_by_hand(tmp_path, use_reentrant):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block(), Block()])

        def forward(self, x):
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=use_reentrant)
            return x

    found = backward_names(tmp_path, Model())
    for path in ("blocks.0#Block", "blocks.0.inner#Linear", "blocks.1#Block"):
        assert found.count(f"tk/module/forward/{path}") == 1
        assert found.count(f"tk/module/recompute/{path}") == 1
        assert found.count(f"tk/module/backward/{path}") == 1
    assert ranges.open_count() == 0


def test_backward_ranges_lie_inside_of_those_of_their_parents(tmp_path):
    found = backward_names(tmp_path, nn.Sequential(Block(), Block()))
    backward = [name for name in found if name.startswith("tk/module/backward/")]
    wanted = ["Sequential#Sequential", "1#Block", "1.inner#Linear", "0#Block", "0.inner#Linear"]
    assert backward == [f"tk/module/backward/{name}" for name in wanted]


def test_a_module_that_is_called_twice_and_one_with_two_names(tmp_path):
    shared = nn.Linear(4, 4)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = shared
            self.second = shared

        def forward(self, x):
            return self.second(self.first(x))

    found = backward_names(tmp_path, Model())
    assert found.count("tk/module/forward/first#Linear") == 2
    assert found.count("tk/module/backward/first#Linear") == 2


def test_a_second_model_has_another_name(tmp_path):
    model, teacher, shared = nn.Sequential(Block()), nn.Sequential(Block()), nn.ReLU()
    with ranges.ModuleRanges(model) as trees:
        trees.add(teacher)
        trees.add(nn.Sequential(shared, model[0]))  # which is gone at once
        spans = recorded(tmp_path, lambda: model(shared(teacher(torch.ones(2, 4)))))
    wanted = [f"Sequential_2{name}" for name in ("#Sequential", ".0#Block", ".0.inner#Linear")]
    wanted += ["Sequential_3.0#ReLU", "Sequential#Sequential", "0#Block", "0.inner#Linear"]
    assert names(spans) == [f"tk/module/forward/{name}" for name in wanted]


def test_a_module_that_calls_itself(tmp_path):
    class Model(nn.Module):
        def forward(self, x, depth=2):
            return self(x + 1, depth - 1) if depth else x

    model = Model()
    with ranges.ModuleRanges(model):
        spans = recorded(tmp_path, lambda: model(torch.ones(2, requires_grad=True)))
    assert names(spans) == ["tk/module/forward/Model#Model"] * 3


def test_outputs_without_tensors_and_modules_without_gradients(tmp_path):
    class Odd(nn.Module):
        def forward(self, x, *, extra=None):
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


def test_outputs_that_are_changed_in_place(tmp_path):
    # Torch's full backward hooks refuse this.
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
    assert "tk/module/backward/0#Linear" in backward_names(tmp_path, model)


def test_a_wrapper_and_the_model_inside_have_one_name(tmp_path):
    model = lora()
    with ranges.ModuleRanges(model):
        spans = recorded(tmp_path, lambda: train_step(model))
    roots = {name for name in names(spans) if name.endswith("ForCausalLM")}
    assert roots == {"tk/module/forward/LlamaForCausalLM#LlamaForCausalLM"}


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_compiled_regions_are_left_alone():
    model = nn.Sequential(Block(), Block())
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with ranges.ModuleRanges(compiled):
        result = compiled(torch.ones(2, 4))
        assert ranges.open_count() == 0
    assert torch.equal(result, model(torch.ones(2, 4)))


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(Block(), Block())

    def forward(self, inputs):
        return self.inner(inputs)


def in_jit_trace(model, inputs):
    return str(torch.jit.trace(model, inputs, check_trace=False).code)


def in_fx(model, inputs):
    del inputs
    outer = nn.Sequential()
    outer.forward = lambda inputs: model(inputs) + 0
    return str(fx.symbolic_trace(outer).code)


def in_make_fx(model, inputs):
    def gradients(inputs):
        loss = model(inputs).sum()
        loss.backward()
        return loss

    return str(make_fx(gradients)(inputs).code)


def in_export(model, inputs):
    return str(torch.export.export(model, (inputs,)).graph)


def under_fake_tensors(model, inputs):
    with FakeTensorMode(allow_non_fake_inputs=True):
        return str(model(inputs).shape)


def under_a_function_mode(model, inputs):
    class Calls(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            called.append(str(func.__name__))
            return func(*args, **(kwargs or {}))

    called = []
    with Calls():
        model(inputs)
    return called


def in_cuda_graph(model, inputs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_initialized", lambda: True)
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        return str(model(inputs).shape)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    "capture",
    [
        *(in_jit_trace, in_fx, in_make_fx, in_export, under_fake_tensors, under_a_function_mode),
        in_cuda_graph,
    ],
)
def test_calls_captured_by_torch_have_no_range_and_are_no_step(tmp_path, capture):
    heard = []

    class Steps(Observer):
        def training_call_begins(self, module, *_):
            heard.append(module)

    class Passes(training_hooks.Listener):
        def before_backward(self, tensors):
            heard.append(tensors)

    model, inputs = Nested(), torch.ones(2, 4)
    expected = capture(copy.deepcopy(model), inputs)
    watch, passes = LoopWatch(Steps()), Passes()
    watch.start()
    training_hooks.listen(passes)
    try:
        with ranges.ModuleRanges(model):
            spans = recorded(tmp_path, lambda: heard.append(capture(model, inputs)))
    finally:
        training_hooks.unlisten(passes)
        watch.stop()
    assert heard == [expected]
    assert not any(name.startswith("tk/") for name in names(spans))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_compiled_optimizers_are_counted_as_without_listeners():
    from torch._dynamo.utils import counters

    frames = []
    for has_listener in (False, True):
        torch._dynamo.reset()
        counters.clear()
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters())
        step = torch.compile(optimizer.step, backend="eager")
        listener = training_hooks.Listener()
        if has_listener:
            training_hooks.listen(listener)
        for _ in range(3):
            model(torch.ones(1, 2)).sum().backward()
            step()
        training_hooks.unlisten(listener)
        frames.append({name: dict(counters[name]) for name in ("frames", "stats", "graph_break")})
    assert frames[0]["frames"]
    assert frames[1] == frames[0]
    # The hooks stay while a step is compiled.
    torch._dynamo.reset()
    training_hooks.listen(listener)
    training_hooks.unlisten(listener)


def test_calls_inside_of_others_are_heard_only_where_wanted():
    heard = []

    class Listener:
        wants_inner = False

        def before(self, module, *_):
            heard.append(module)

        def after(self, *_):
            """Ignore the call."""

        def broken(self, error):
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


def test_paths_are_those_of_the_model_whatever_wraps_it():
    plain = set(module_paths(tiny_llama()).values())
    assert {"LlamaForCausalLM", "model", "model.layers.1.mlp.up_proj", "lm_head"} <= plain

    class Wrapper(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

    class Engine(Wrapper):
        def __init__(self, module):
            super().__init__(module)
            self.other = nn.Identity()

        def backward(self): ...
        def step(self): ...

    assert set(module_paths(Wrapper(tiny_llama())).values()) == plain
    assert set(module_paths(Wrapper(Wrapper(tiny_llama()))).values()) == plain
    assert set(module_paths(Engine(tiny_llama())).values()) == {*plain, "other"}


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_paths_of_compiled_and_checkpointed_models():
    wrapper = pytest.importorskip(
        "torch.distributed.algorithms._checkpoint.checkpoint_wrapper"
    ).checkpoint_wrapper
    model = nn.Sequential(wrapper(Block()), nn.ReLU())
    assert set(module_paths(model).values()) == {"Sequential", "0", "0.inner", "1"}
    compiled = torch.compile(nn.Sequential(Block()), backend="eager")
    assert set(module_paths(compiled).values()) == {"Sequential", "0", "0.inner"}


def test_methods_of_the_names_that_peft_has_are_not_called():
    class Mine(Block):
        def get_base_model(self, name):
            raise AssertionError(name)

    assert set(module_paths(Mine()).values()) == {"Mine", "inner"}


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_paths_of_adapters():
    peft = pytest.importorskip("peft")
    plain = set(module_paths(tiny_llama()).values())
    paths = set(module_paths(lora()).values())
    q_proj = "model.layers.0.self_attn.q_proj"
    assert plain <= paths
    assert {f"{q_proj}.base_layer", f"{q_proj}.lora_A.default"} <= paths - plain
    assert all(".self_attn.q_proj." in path for path in paths - plain)
    config = peft.PromptTuningConfig(num_virtual_tokens=2, task_type="CAUSAL_LM")
    paths = set(module_paths(peft.get_peft_model(tiny_llama(), config)).values())
    assert plain <= paths
    assert {path.partition(".")[0] for path in paths - plain} == {"prompt_encoder"}


def test_nsight_sees_the_same_names(tmp_path, monkeypatch):
    nvtx = Mock()
    monkeypatch.setattr(open_ranges, "_nvtx", None)
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    model = tiny_llama("non-reentrant")
    with ranges.phase("forward"):  # which has none
        ranges.use_nvtx()
    with ranges.ModuleRanges(model, backward=True):
        spans = recorded(tmp_path, lambda: train_step(model))
    assert [one.args[0] for one in nvtx.push_range.mock_calls] == names(spans)
    assert nvtx.pop_range.call_count == len(spans)


@pytest.mark.parametrize(
    ("variable", "is_read"),
    [("NSYS_PROFILING_SESSION_ID", True), ("NVTX_INJECTION64_PATH", True), ("NOTHING", False)],
)
def test_nvtx_ranges_are_made_where_something_reads_them(variable, is_read, monkeypatch):
    monkeypatch.setitem(sys.modules, "nvtx", Mock())
    monkeypatch.setenv(variable, "1")
    spec = importlib.util.find_spec(open_ranges.__name__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.part("mine"):
        assert sys.modules["nvtx"].push_range.mock_calls == [call("tk/part/mine")] * is_read


def test_without_the_nvtx_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "nvtx", None)
    ranges.use_nvtx()
    model = Block()
    with ranges.ModuleRanges(model):
        assert len(recorded(tmp_path, lambda: model(torch.ones(2, 4)))) == 2


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("options", [{"record_shapes": False}, {}, {"all_threads": True}])
def test_ranges_are_annotations_for_every_profiler_and_torch(
    options, is_old, tmp_path, monkeypatch
):
    if is_old:
        monkeypatch.delattr(torch.autograd, "_record_function_with_args_enter")
        begin, end = open_ranges._annotators()
        monkeypatch.setattr(open_ranges, "_annotate", begin)
        monkeypatch.setattr(open_ranges, "_end_annotation", end)

    def work():
        with ranges.part("outer"), ranges.part("inner"):
            torch.ones(1)

    assert names(recorded(tmp_path, work, **options)) == ["tk/part/outer", "tk/part/inner"]


def test_a_profiler_may_start_and_stop_inside_of_ranges(tmp_path):
    for number in range(3):
        profile = Profile(tmp_path / f"{number}.json.gz", {})
        before, after = ranges.part("before"), ranges.part("after")
        before.__enter__()
        profile.start()
        before.__exit__()
        with ranges.part("whole"):
            torch.ones(1)
        after.__enter__()
        profile.stop()
        if number:
            after.__exit__()  # else it is left open while another records
        assert "tk/part/whole" in names(spans_of(profile.export()))
    open_ranges.close_down_to(0)


def test_modes_of_the_program_see_no_range():
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, op, *_, **__):
            seen.append(op)

    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with profiler, Mode(), ranges.part("mine"):
        pass
    assert not seen


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_exceptions_close_ranges(error):
    """Forward hooks are not called after Ctrl-C; the range around the model closes theirs."""

    class Failing(nn.Module):
        def forward(self, _):
            raise error("on purpose")

    model = nn.Sequential(Block(), Failing())
    with ranges.ModuleRanges(model):
        with pytest.raises(error), ranges.step(0), ranges.phase("forward"):
            model(torch.ones(2, 4))
        assert ranges.open_count() == 0


def test_threads_have_ranges_of_their_own(tmp_path):
    model = nn.Sequential(Block(), nn.ReLU())
    barrier = threading.Barrier(2)

    def work():
        barrier.wait()
        with ranges.phase("forward"):
            for _ in range(20):
                model(torch.ones(2, 4, requires_grad=True)).sum().backward()
        assert ranges.open_count() == 0

    def both():
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with ranges.ModuleRanges(model, backward=True):
        spans = recorded(tmp_path, both, all_threads=True)
    assert len({span["tid"] for span in spans}) == 2
    assert Counter(names(spans))["tk/module/forward/0.inner#Linear"] == 40
    assert Counter(names(spans))["tk/module/backward/0.inner#Linear"] == 40


class NoWayBack(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x * 2

    @staticmethod
    def backward(*_):
        raise RuntimeError("on the way back")


def test_exceptions_in_backward_close_ranges(tmp_path):
    class Odd(nn.Module):
        def forward(self, x):
            return NoWayBack.apply(x)

    model = nn.Sequential(Block(), Odd(), Block())

    def fail_and_go_on():
        x = torch.ones(2, 4, requires_grad=True)
        with pytest.raises(RuntimeError, match="on the way back"):
            model(x).sum().backward()
        model[0](x)

    with ranges.ModuleRanges(model, backward=True):
        spans = recorded(tmp_path, fail_and_go_on)
    assert ranges.open_count() == 0
    assert "tk/module/backward/1#Odd" in names(spans)
    assert names(spans)[-2:] == ["tk/module/forward/0#Block", "tk/module/forward/0.inner#Linear"]


CONFIGS = {
    "llama": {},
    "llama, grouped heads": {"num_key_value_heads": 2, "attention_dropout": 0.1},
    # Soft-capped logits between the first product and the softmax; layers with a sliding window.
    "gemma2": {"num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8},
    "gpt_neox": {},
}


def build(name, attention):
    torch.manual_seed(0)
    config = transformers.CONFIG_MAPPING[name.partition(",")[0]].from_dict(
        {**SIZES, **CONFIGS[name]}
    )
    config.use_cache = False
    return transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation=attention
    ).train()


def results(model):
    torch.manual_seed(1)
    output = model(input_ids=TOKENS, labels=TOKENS)
    output.loss.backward()
    return [output.loss, output.logits, *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize("name", CONFIGS)
def test_parts_change_no_bit_of_eager_attention(name, tmp_path):
    plain = results(build(name, "eager"))
    model = build(name, "eager")
    with attention_parts.AttentionRanges(model):
        split = results(model)
        spans = recorded(tmp_path, lambda: model(input_ids=TOKENS))
    parts = ("rope", "bmm0", "softmax", "bmm1")
    assert Counter(names(spans)) == {f"tk/part/{part}": 2 for part in parts}
    assert len(plain) == len(split)
    for one, other in zip(plain, split, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


def test_parts_change_no_bit_with_padding_and_no_copy():
    mask = torch.ones_like(TOKENS)
    mask[0, 20:] = 0
    model = build("llama", "eager")
    plain, filed = model(input_ids=TOKENS, attention_mask=mask).logits, pickle.dumps(model)
    file = sys.modules[type(model).__module__]
    function = file.eager_attention_forward
    with attention_parts.AttentionRanges(model):
        assert torch.equal(model(input_ids=TOKENS, attention_mask=mask).logits, plain)
        assert pickle.dumps(model) == filed
        assert copy.deepcopy(model).config._attn_implementation == "eager"
        assert file.eager_attention_forward is not function
    assert file.eager_attention_forward is function


def test_rope_functions_are_restored(monkeypatch):
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
    # A wrapper of the program around tracekit's stays.
    with attention_parts.AttentionRanges(model):
        ours = file.apply_rotary_pos_emb
        theirs = functools.wraps(ours)(functools.partial(ours))
        monkeypatch.setattr(file, "apply_rotary_pos_emb", theirs)
    assert file.apply_rotary_pos_emb is theirs
    monkeypatch.setattr(file, "apply_rotary_pos_emb", ours.__wrapped__)
