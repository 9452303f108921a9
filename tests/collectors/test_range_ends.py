"""Ranges close whatever happens in them, on every thread, and for Nsight too."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from recorded_modules import (  # noqa: E402
    Block,
    assert_nested,
    names,
    recorded,
    spans_of,
    tiny_llama,
    train_step,
)
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from tracekit.collectors import ranges  # noqa: E402
from tracekit.collectors.profiler.profile import Profile  # noqa: E402
from tracekit.collectors.ranges import open_ranges  # noqa: E402


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
    monkeypatch.setattr(open_ranges, "_nvtx", None)
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    model = tiny_llama("non-reentrant")
    with ranges.phase("forward"):  # which has none
        ranges.use_nvtx()
    with ranges.ModuleRanges(model, backward=True):
        spans = recorded(tmp_path, lambda: train_step(model))
    assert nvtx.seen == names(spans)
    assert nvtx.open == []


@pytest.mark.parametrize(
    ("variable", "is_read"),
    [("NSYS_PROFILING_SESSION_ID", True), ("NVTX_INJECTION64_PATH", True), ("NOTHING", False)],
)
def test_nvtx_ranges_are_made_where_something_reads_them(
    variable: str, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", Nvtx())
    monkeypatch.setenv(variable, "1")
    spec = importlib.util.find_spec(open_ranges.__name__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.part("mine"):
        assert sys.modules["nvtx"].seen == ["tk/part/mine"] * is_read


def test_without_the_nvtx_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    ranges.use_nvtx()
    model = Block()
    with ranges.ModuleRanges(model):
        assert len(recorded(tmp_path, lambda: model(torch.ones(2, 4)))) == 2


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("options", [{"record_shapes": False}, {}, {"all_threads": True}])
def test_ranges_are_annotations_for_every_profiler_and_torch(
    options: dict[str, bool], is_old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_old:
        monkeypatch.delattr(torch.autograd, "_record_function_with_args_enter")
        begin, end = open_ranges._annotators()
        monkeypatch.setattr(open_ranges, "_annotate", begin)
        monkeypatch.setattr(open_ranges, "_end_annotation", end)
    profile = Profile(tmp_path / "trace.json.gz", {}, **options)
    profile.start()
    with ranges.part("outer"), ranges.part("inner"):
        torch.ones(1)
    profile.stop()
    spans = spans_of(profile.export())
    assert names(spans) == ["tk/part/outer", "tk/part/inner"]
    assert_nested(spans)


def test_a_profiler_may_start_and_stop_inside_of_ranges(tmp_path: Path) -> None:
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


def test_modes_of_the_program_see_no_range() -> None:
    seen: list[Any] = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, op: Any, *_: Any, **__: Any) -> Any:
            seen.append(op)

    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with profiler, Mode(), ranges.part("mine"):
        pass
    assert not seen


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
    with ranges.ModuleRanges(model, backward=True):
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

    with ranges.ModuleRanges(model, backward=True):
        spans = recorded(tmp_path, fail_and_go_on)
    assert ranges.open_count() == 0
    assert "tk/module/backward/1#Odd" in names(spans)
    assert names(spans)[-2:] == ["tk/module/forward/0#Block", "tk/module/forward/0.inner#Linear"]
