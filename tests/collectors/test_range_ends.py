"""Ranges close whatever happens in them, on every thread, and for Nsight too."""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch import nn  # noqa: E402
from tracekit.collectors import ranges  # noqa: E402
from tracekit.collectors.profiler.profile import Profile  # noqa: E402
from tracekit.collectors.ranges import open_ranges  # noqa: E402

TOKENS = torch.arange(2 * 128).reshape(2, 128) % 256


def tiny_llama(mode: str = "plain", attention: str = "eager") -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=256,
        attn_implementation=attention,
        use_cache=False,
    )
    model = transformers.LlamaForCausalLM(config).train()
    if mode != "plain":
        enable_checkpointing(model, is_reentrant=mode == "reentrant")
        if mode == "reentrant":
            model.enable_input_require_grads()
    return model


def enable_checkpointing(model: Any, *, is_reentrant: bool) -> None:
    options = {"use_reentrant": is_reentrant}
    if hasattr(model, "activation_checkpointing_enable"):  # transformers 5.20 renamed it
        model.activation_checkpointing_enable(options)
    else:
        model.gradient_checkpointing_enable(options)


def train_step(model: Any) -> Any:
    with ranges.phase("forward"):
        loss = model(input_ids=TOKENS, labels=TOKENS).loss
    with ranges.phase("backward"):
        loss.backward()
    return loss.detach()


def recorded(path: Path, run: Callable[[], object]) -> list[dict[str, Any]]:
    """Return the ranges that a profiler sees while something runs, in the order of their starts."""
    profile = Profile(path / "trace.json.gz", {})
    profile.start()
    try:
        run()
    finally:
        profile.stop()
    trace = json.loads(gzip.decompress(profile.export().read_bytes()))
    spans = [
        event
        for event in trace["traceEvents"]
        if event.get("cat") == "user_annotation" and event["name"].startswith("tk/")
    ]
    assert_nested(spans)
    return sorted(spans, key=lambda span: (span["ts"], -span["dur"]))


def assert_nested(spans: list[dict[str, Any]]) -> None:
    for tid in {span["tid"] for span in spans}:
        open_ends: list[float] = []
        mine = [span for span in spans if span["tid"] == tid]
        for span in sorted(mine, key=lambda span: (span["ts"], -span["dur"])):
            end = span["ts"] + span["dur"]
            while open_ends and open_ends[-1] <= span["ts"]:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 0.001, span["name"]
            open_ends.append(end)


def hook_count(model: Any) -> int:
    return sum(
        len(hooks)
        for module in model.modules()
        for hooks in (
            module._forward_hooks,
            module._forward_pre_hooks,
            module._forward_hooks_always_called,
            module._forward_pre_hooks_with_kwargs,
            module._backward_hooks,
        )
    )


def names(spans: list[dict[str, Any]]) -> list[str]:
    return [span["name"] for span in spans]


def spans_of(path: Path) -> list[dict[str, Any]]:
    trace = json.loads(gzip.decompress(path.read_bytes()))
    return [span for span in trace["traceEvents"] if span.get("cat") == "user_annotation"]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.inner(x))


class Failing(nn.Module):
    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error = error

    def forward(self, _: Any) -> Any:
        raise self.error("on purpose")


class Nvtx:
    """Stands in for the nvtx package: keeps what is pushed and popped."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.seen: list[str] = []

    def push_range(self, name: str) -> None:
        self.open.append(name)
        self.seen.append(name)

    def pop_range(self) -> None:
        self.open.pop()


def test_nsight_sees_the_same_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvtx = Nvtx()
    monkeypatch.setattr(open_ranges, "nvtx", nvtx)
    model = tiny_llama("non-reentrant")
    with ranges.ModuleRanges(model):
        spans = recorded(tmp_path, lambda: train_step(model))
    assert nvtx.seen == names(spans)
    assert nvtx.open == []


def test_without_the_nvtx_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_ranges, "nvtx", None)
    model = Block()
    with ranges.ModuleRanges(model):
        assert len(recorded(tmp_path, lambda: model(torch.ones(2, 4)))) == 2


def test_exceptions_close_ranges() -> None:
    model = nn.Sequential(Block(), Failing(RuntimeError))
    with ranges.ModuleRanges(model):
        with pytest.raises(RuntimeError, match="on purpose"):
            model(torch.ones(2, 4))
        assert ranges.open_count() == 0


def test_ctrl_c_inside_of_a_module_closes_ranges() -> None:
    # Forward hooks are not called then; the range around the model closes what they left.
    model = nn.Sequential(Block(), Failing(KeyboardInterrupt))
    with ranges.ModuleRanges(model):
        with pytest.raises(KeyboardInterrupt), ranges.step(0), ranges.phase("forward"):
            model(torch.ones(2, 4))
        assert ranges.open_count() == 0


def test_threads_have_ranges_of_their_own(tmp_path: Path) -> None:
    model = nn.Sequential(Block(), nn.ReLU())
    barrier = threading.Barrier(2)

    def work() -> None:
        barrier.wait()
        with ranges.phase("forward"):
            for _ in range(20):
                model(torch.ones(2, 4, requires_grad=True)).sum().backward()
        assert ranges.open_count() == 0

    def both() -> None:
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    profile = Profile(tmp_path / "trace.json.gz", {}, all_threads=True)
    with ranges.ModuleRanges(model):
        profile.start()
        both()
        profile.stop()
    spans = [span for span in spans_of(profile.export()) if span["name"].startswith("tk/")]
    assert_nested(spans)
    assert len({span["tid"] for span in spans}) == 2
    assert Counter(names(spans))["tk/module/forward/0.inner#Linear"] == 40
    assert Counter(names(spans))["tk/module/backward/0.inner#Linear"] == 40


class NoWayBack(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(*_: Any) -> Any:
        raise RuntimeError("on the way back")


def test_exceptions_in_backward_close_ranges(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def forward(self, x: Any) -> Any:
            return NoWayBack.apply(x)

    model = nn.Sequential(Block(), Odd(), Block())

    def fail_and_go_on() -> None:
        x = torch.ones(2, 4, requires_grad=True)
        with pytest.raises(RuntimeError, match="on the way back"):
            model(x).sum().backward()
        model[0](x)

    with ranges.ModuleRanges(model):
        spans = recorded(tmp_path, fail_and_go_on)
    assert ranges.open_count() == 0
    assert "tk/module/backward/1#Odd" in names(spans)
    assert names(spans)[-2:] == ["tk/module/forward/0#Block", "tk/module/forward/0.inner#Linear"]
