"""Named ranges around what a model does: modules, phases, steps and parts of modules.

The names are a contract with the analyses, and people read them in Perfetto and Nsight too:
`tk/step/<n>`, `tk/phase/<name>`, `tk/part/<name>` and
`tk/module/<forward|backward|recompute>/<path>#<Class>`. Each range is a `record_function`, which
only costs something while a profiler records, and an NVTX range where the nvtx package is installed
(silent without CUDA and without Nsight).

**Paths** are the names of `named_modules()` of the user's own model. What merely wraps it is left
out, so that runs of one model compare whatever trains it: DDP, FSDP and DeepSpeed (`module.`),
compiled, FSDP1 and checkpoint wrappers (`_orig_mod.`, `_fsdp_wrapped_module.`,
`_checkpoint_wrapped_module.`), and PEFT (`base_model.model.`). The model itself, which has no name
there, and the wrappers around it go by the name of its class. A module of two names keeps its
first.

**Threads.** Open ranges are kept per thread, and whatever closes one closes what was left open
inside of it. So every range ends, on its own thread and in the right order, under exceptions, the
early stop of non-reentrant checkpoints, and Ctrl-C.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Literal, Self

import torch
from torch import nn
from torch.autograd import profiler

from ._backward_ranges import BackwardTasks, Pass

try:
    import nvtx
except ImportError:
    nvtx = None

Phase = Literal["forward", "backward", "optimizer", "data", "prefill", "decode", "mixed"]

_WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})

# Names without a promise. Without the first two a range is recorded whether or not a profiler runs,
# which costs a few µs; without the third, recomputation counts as forward.
_is_thread_profiled: Callable[[], bool] = getattr(torch.autograd, "_profiler_enabled", lambda: True)
_is_process_profiled = "_is_profiler_enabled"
_graph_task_id: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)


class _Open:
    """A range that is open: whose it is, and what ends it."""

    __slots__ = ("is_marked", "owner", "record")

    def __init__(self, owner: object, name: str) -> None:
        self.owner = owner
        self.record = None
        self.is_marked = nvtx is not None
        if self.is_marked:
            nvtx.push_range(name)
        # A profiler of all threads is not enabled on any of them, one of C++ only on threads.
        if getattr(profiler, _is_process_profiled, True) or _is_thread_profiled():
            self.record = profiler.record_function(name)
            self.record.__enter__()

    def close(self) -> None:
        if self.record is not None:
            self.record.__exit__(None, None, None)
        if self.is_marked:
            nvtx.pop_range()


class _Thread(threading.local):
    """What is open on this thread, outermost first."""

    def __init__(self) -> None:
        self.open: list[_Open] = []
        self.tasks = BackwardTasks()
        self.last_output: weakref.ref[Any] | None = None
        self.last_passes: list[Pass] = []


_thread = _Thread()


def open_count() -> int:
    """Return how many ranges are open on this thread."""
    return len(_thread.open)


def is_backward() -> bool:
    """Tell whether the autograd engine is running a backward pass on this thread."""
    return _graph_task_id() != -1


class Range:
    """A range as a context manager; it can be entered again after it was left.

    Args:
        name: the whole name, as it stands in the trace.
    """

    __slots__ = ("_depths", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._depths: list[int] = []

    def __enter__(self) -> Self:
        self._depths.append(_open(self, self.name))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        depth = self._depths.pop()
        stack = _thread.open
        # One around it may have closed it already.
        if depth < len(stack) and stack[depth].owner is self:
            _close_down_to(depth)


def step(number: int) -> Range:
    """Return the range of the step of this number."""
    return Range(f"tk/step/{number}")


def phase(name: Phase) -> Range:
    """Return the range of a phase of a step."""
    return Range(f"tk/phase/{name}")


def part(name: str) -> Range:
    """Return the range of a part of a module's work: rope, bmm0, softmax, bmm1."""
    return Range(f"tk/part/{name}")


class ModuleRanges:
    """Ranges around every module of a model, while they are attached.

    Forward and recompute ranges come from forward hooks, which change no output. Transformers
    recomputes a decoder layer by its `forward`, past its hooks; its checkpoint function is wrapped
    so that the layer has a range there too.

    Backward ranges come from hooks on tensors, which change neither the graph nor the gradients:
    a module's begins when the gradient of its output is taken up and ends when that of its input
    is there, or when a module beside it begins. A module that no gradient passes through (an
    embedding, what lies below frozen weights) has none. They are for people; the analyses trust
    the sequence numbers of autograd's own nodes more.

    Under `torch.compile` the hooks do nothing inside of a compiled region.

    Args:
        model: the model; it may be wrapped by DDP, FSDP, DeepSpeed or PEFT.
        backward: whether to make backward ranges.
        name: the path of the model itself, put before all others; for a second model beside the
            first, such as a teacher.
    """

    def __init__(self, model: nn.Module, *, backward: bool = True, name: str | None = None) -> None:
        self.model = model
        self._name = name
        self._backward = backward
        self._handles: list[Any] = []
        self._hooks: list[_Hooks] = []

    def __enter__(self) -> Self:
        self.attach()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.detach()

    @property
    def is_attached(self) -> bool:
        """Whether the modules have their hooks."""
        return bool(self._handles)

    def attach(self) -> None:
        """Give every module its hooks; does nothing if they are there."""
        if self._handles:
            return
        paths = module_paths(self.model)
        inner = _unwrapped(self.model)[0]
        root = paths[inner]
        everyone: dict[nn.Module, _Hooks] = {}
        for module, path in paths.items():
            kind = class_name(inner if path == root else module)
            if self._name is not None:
                path = self._name if path == root else f"{self._name}.{path}"
            hooks = _Hooks(path, kind, everyone, backward=self._backward)
            everyone[module] = hooks
            self._hooks.append(hooks)
            self._handles.append(
                module.register_forward_pre_hook(hooks.before, prepend=True, with_kwargs=True)
            )
            # always_call: the early stop of a checkpoint leaves the module by an exception.
            self._handles.append(module.register_forward_hook(hooks.after, always_call=True))
            if hasattr(module, "gradient_checkpointing"):
                hooks.checkpointing = module

    def detach(self) -> None:
        """Take all hooks away again; does nothing if there are none."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        for hooks in self._hooks:
            hooks.detach()
        self._hooks.clear()
        _close_stale()


def module_paths(model: nn.Module) -> dict[nn.Module, str]:
    """Return every module of a model with its path; the head of this file says what a path is."""
    inner, prefix = _unwrapped(model)
    root = class_name(inner)
    paths: dict[nn.Module, str] = {}
    for name, module in model.named_modules():
        if f"{name}.".startswith(prefix):
            paths[module] = _without_wrappers(name[len(prefix) :]) or root
        elif prefix.startswith(f"{name}.") or not name:
            paths[module] = root
        else:  # beside the model: a prompt encoder of PEFT
            paths[module] = _without_wrappers(name)
    return paths


def class_name(module: nn.Module) -> str:
    """Return the name of a module's class, without what FSDP2 puts in front of it."""
    kinds = type(module).__mro__
    if kinds[1].__name__ == "FSDPModule" and len(kinds) > 2:
        return kinds[2].__name__
    return kinds[0].__name__


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the user's own model inside of what DDP, FSDP, DeepSpeed, PEFT or compile made."""
    return _unwrapped(model)[0]


def _unwrapped(model: nn.Module) -> tuple[nn.Module, str]:
    """Return the user's model and the prefix of the names of its modules."""
    prefix = ""
    while True:
        step_name = _wrapper_child(model)
        if step_name is None:
            return model, prefix
        model = model.get_submodule(step_name)
        prefix += f"{step_name}."


def _wrapper_child(model: nn.Module) -> str | None:
    """Return the name of the model that this one wraps, or None if it wraps none."""
    children = dict(model.named_children())
    for name in (*_WRAPPERS, "module"):
        if list(children) == [name]:
            return name
    # DeepSpeed's engine may hold more than the model; a checkpoint wrapper is nobody's engine.
    if "module" in children and hasattr(model, "backward") and hasattr(model, "step"):
        return "module"
    base = getattr(model, "get_base_model", None)  # PEFT, whose base model lies at two depths
    if callable(base):
        found = base()
        return next(
            (name for name, inner in model.named_modules() if name and inner is found), None
        )
    return None


def _without_wrappers(path: str) -> str:
    return ".".join(name for name in path.split(".") if name not in _WRAPPERS)


class _Hooks:
    """The hooks of one module."""

    __slots__ = (
        "_backward_name",
        "_everyone",
        "_forward_name",
        "_is_attached",
        "_path",
        "_recompute_name",
        "checkpointing",
    )

    def __init__(
        self, path: str, kind: str, everyone: Mapping[nn.Module, _Hooks], *, backward: bool
    ) -> None:
        self._path = path
        self._forward_name = f"tk/module/forward/{path}#{kind}"
        self._recompute_name = f"tk/module/recompute/{path}#{kind}"
        self._backward_name = f"tk/module/backward/{path}#{kind}" if backward else None
        self._everyone = everyone
        self._is_attached = True
        self.checkpointing: Any = None

    def before(
        self,
        module: nn.Module,
        args: tuple[object, ...],
        kwargs: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Open the range of a call."""
        del module
        # A hook before this one may have detached it; torch calls it all the same, without kwargs.
        if torch.compiler.is_compiling() or not self._is_attached:
            return
        if self.checkpointing is not None:
            self._wrap_checkpoint()
        depth = self.open_call()
        if self._backward_name is not None and torch.is_grad_enabled():
            first = next(_tensors_with_grad((*args, *kwargs.values())), None)
            if first is not None:
                _thread.open[depth].owner = (self, first)

    def open_call(self) -> int:
        """Open the range of a call of the module, by its hooks or past them; return its depth."""
        return _open(self, self._recompute_name if is_backward() else self._forward_name)

    def after(self, module: nn.Module, args: tuple[object, ...], output: object) -> None:
        """Close the range of a call, also of one that ended by an exception."""
        del module, args
        if torch.compiler.is_compiling():
            return
        stack = _thread.open
        for depth in range(len(stack) - 1, -1, -1):
            owner = stack[depth].owner
            first = None
            if type(owner) is tuple:
                owner, first = owner
            if owner is self:
                _close_down_to(depth)
                if first is not None and output is not None:
                    self._watch(first, output)
                return

    def _watch(self, first: torch.Tensor, output: object) -> None:
        """Make a backward range of the call whose first input and whose output these are."""
        if self._backward_name is None:
            return
        last = next(_tensors_with_grad((output,)), None)
        if last is None or last is first or last.grad_fn is None:
            return
        one = Pass(self._path, self._backward_name)
        first.register_hook(lambda _: _close_backward(one))
        # Modules around each other often have one output, whose hooks run in the order in which
        # they were made: inner ones first. So there is one hook, which opens outer ones first.
        if _thread.last_output is not None and _thread.last_output() is last:
            _thread.last_passes.insert(0, one)
            return
        passes = _thread.last_passes = [one]
        _thread.last_output = weakref.ref(last)
        last.register_hook(lambda _: _open_backward(passes))

    def _wrap_checkpoint(self) -> None:
        function = self.checkpointing.__dict__.get("_gradient_checkpointing_func")
        if function is not None and not isinstance(function, _Checkpoint):
            self.checkpointing._gradient_checkpointing_func = _Checkpoint(
                function, self, self._everyone
            )

    def detach(self) -> None:
        """Do nothing from now on, and give the module the checkpoint function back that it had."""
        self._is_attached = False
        if self.checkpointing is None:
            return
        function = self.checkpointing.__dict__.get("_gradient_checkpointing_func")
        if isinstance(function, _Checkpoint):
            self.checkpointing._gradient_checkpointing_func = function.function


class _Checkpoint:
    """A model's checkpoint function, which opens the layer's range where it recomputes it."""

    def __init__(
        self, function: Callable[..., Any], owner: _Hooks, everyone: Mapping[nn.Module, _Hooks]
    ) -> None:
        self.function = function
        self._owner = owner
        self._everyone = everyone

    def __call__(self, run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a layer under the checkpoint function."""
        hooks = None if torch.compiler.is_compiling() else self._hooks_of(run)
        if hooks is None:
            return self.function(run, *args, **kwargs)

        @functools.wraps(run, assigned=(), updated=())
        def ranged(*args: Any, **kwargs: Any) -> Any:
            if not is_backward():
                return run(*args, **kwargs)
            depth = hooks.open_call()
            try:
                return run(*args, **kwargs)
            finally:
                _close_down_to(depth)

        return self.function(ranged, *args, **kwargs)

    def _hooks_of(self, run: Callable[..., Any]) -> _Hooks | None:
        """Return the layer whose work this is; None where its own hooks will fire."""
        bound: tuple[Any, ...] = ()
        while isinstance(run, functools.partial):
            bound = (*run.args, *bound)
            run = run.func
        module = getattr(run, "__self__", run)
        if isinstance(module, nn.Module):
            is_call = module is run or "call" in getattr(run, "__name__", "")
            return None if is_call else self._everyone.get(module, self._owner)
        if bound and isinstance(bound[0], nn.Module):
            return self._everyone.get(bound[0], self._owner)
        return self._owner


def _open(owner: object, name: str) -> int:
    """Open a range on this thread, and return how many are around it."""
    stack = _thread.open
    if stack and isinstance(stack[-1].owner, Pass):
        _close_stale()
    stack.append(_Open(owner, name))
    return len(stack) - 1


def _open_backward(passes: list[Pass]) -> None:
    """Open the backward ranges of calls that have one output, after closing those beside them."""
    stack = _thread.open
    task = _thread.tasks.current(_graph_task_id(), _end_backward)
    for one in passes:
        one.task = task
        while stack and isinstance(stack[-1].owner, Pass) and not stack[-1].owner.holds(one):
            stack.pop().close()
        stack.append(_Open(one, one.name))


def _close_backward(one: Pass) -> None:
    """Close the backward range of a call if it is still open."""
    stack = _thread.open
    for depth in range(len(stack) - 1, -1, -1):
        owner = stack[depth].owner
        if owner is one:
            _close_down_to(depth)
            return
        if not isinstance(owner, Pass):
            return


def _end_backward() -> None:
    """Close the backward ranges that no input's gradient closed, at the end of the engine's run."""
    stack = _thread.open
    while stack and isinstance(stack[-1].owner, Pass) and stack[-1].owner.is_over:
        stack.pop().close()


def _close_stale() -> None:
    """Close the backward ranges that an exception in a backward pass has left open."""
    stack = _thread.open
    if not is_backward():
        while stack and isinstance(stack[-1].owner, Pass):
            stack.pop().close()


def _close_down_to(depth: int) -> None:
    """Close the innermost ranges of this thread until so many are open."""
    stack = _thread.open
    while len(stack) > depth:
        stack.pop().close()


def _tensors_with_grad(values: tuple[object, ...]) -> Iterator[torch.Tensor]:
    """Yield the tensors that require a gradient, also from containers in these values."""
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.requires_grad:
                yield value
        elif isinstance(value, tuple | list):
            yield from _tensors_with_grad(tuple(value))
        elif isinstance(value, Mapping):
            yield from _tensors_with_grad(tuple(value.values()))
