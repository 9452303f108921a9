"""Ranges around the modules of a model: `tk/module/<forward|backward|recompute>/<path>#<Class>`."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import nn

from ..calls import module_calls
from ..calls.dynamo_bypass import has_compiled, is_captured, set_eval_frame, unseen
from ..calls.module_paths import class_name, module_paths, unwrapped
from .open_ranges import (
    Pass,
    close_down_to,
    close_stale,
    graph_task_id,
    is_backward,
    open_range,
    this_thread,
)

_CHECKPOINT = "_gradient_checkpointing_func"
_ref = weakref.ref
_Table = dict["weakref.ref[nn.Module]", "_Named"]


class ModuleRanges:
    """Ranges around every module of a model while attached, outside `torch.compile` regions.

    Forward and recompute ranges enclose module calls (`module_calls`) and change no output.
    Transformers recomputes a decoder layer through `forward`, not through a module call. So its
    checkpoint function is wrapped to give the recomputed layer a range.

    Optional backward ranges use tensor hooks, which change neither the graph nor the gradients. A
    range begins when the gradient of the module's output is ready. It ends when the gradient of the
    input is ready or a sibling's range begins. Backward ranges are for trace viewers, and cost 15
    µs per call even without a profiler.

    Models are weakly referenced, because a program may create and drop one per step, such as a
    loss.
    """

    wants_inner = True

    def __init__(self, model: nn.Module, *, backward: bool = False) -> None:
        self._backward = backward
        # The models and the prefixes of their paths; the first model has no prefix.
        self._models = weakref.WeakKeyDictionary({model: ""})
        self._table: _Table = {}

    def __enter__(self) -> Self:
        self.attach()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.detach()

    def __contains__(self, module: nn.Module) -> bool:
        return _ref(module) in self._table

    def attach(self) -> None:
        if self._table:
            return
        for model, name in self._models.items():
            self._name_modules(model, name)
        module_calls.listen(self)

    def add(self, model: nn.Module) -> None:
        """Add ranges for a second model, such as a teacher: its paths begin with its class."""
        used_names = {name or class_name(unwrapped(one)) for one, name in self._models.items()}
        base = name = class_name(unwrapped(model))
        number = 1
        while name in used_names:
            number += 1
            name = f"{base}_{number}"
        self._models[model] = name
        if self._table:
            self._name_modules(model, name)

    def _name_modules(self, model: nn.Module, name: str) -> None:
        paths = module_paths(model)
        inner = unwrapped(model)
        root = paths[inner]
        for module, path in paths.items():
            kind = class_name(inner if path == root else module)
            if name:
                path = name if path == root else f"{name}.{path}"
            # After compilation, the checkpoint function is not wrapped, because Dynamo guards on
            # attributes of modules.
            has_checkpoint = hasattr(module, "gradient_checkpointing") and not has_compiled()
            named = _Named(path, kind, self._table, has_checkpoint, backward=self._backward)
            self._table.setdefault(_ref(module), named)

    def detach(self) -> None:
        module_calls.unlisten(self)
        for module, named in self._table.items():
            named.detach(module())
        self._table.clear()
        close_stale()

    def before(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> _Named | None:
        named = self._table.get(_ref(module))
        if named is not None:
            named.begin(module, args, kwargs)
        return named

    def after(self, module: nn.Module, token: Any, output: object) -> None:
        del module
        if token is not None:
            token.end(output)

    def broken(self, error: Exception) -> None:
        """Ignore the error; `module_calls` has removed this listener."""


class _Named:
    __slots__ = (
        "_backward_name",
        "_everyone",
        "_forward_name",
        "_has_checkpoint",
        "_path",
        "recompute_name",
    )

    def __init__(
        self, path: str, kind: str, everyone: _Table, has_checkpoint: bool, *, backward: bool
    ) -> None:
        self._path = path
        self._forward_name = f"tk/module/forward/{path}#{kind}"
        self.recompute_name = f"tk/module/recompute/{path}#{kind}"
        self._backward_name = f"tk/module/backward/{path}#{kind}" if backward else None
        self._everyone = everyone
        self._has_checkpoint = has_checkpoint

    def begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self._has_checkpoint:
            self._wrap_checkpoint(module)
        first = None
        if self._backward_name is not None and torch.is_grad_enabled():
            first = _first_with_grad(args)
            if first is None:
                first = _first_with_grad(kwargs)
        name = self._forward_name if graph_task_id() == -1 else self.recompute_name
        open_range(self, name, first)

    def end(self, output: object) -> None:
        stack = this_thread.open
        depth = len(stack)
        while depth:
            depth -= 1
            owner, _, _, first = stack[depth]
            if owner is self:
                close_down_to(depth)
                if first is not None and output is not None:
                    self._watch(first, output)
                return

    def _watch(self, first: torch.Tensor, output: object) -> None:
        last = _first_with_grad(output)
        if self._backward_name is None or last is None or last is first or last.grad_fn is None:
            return
        one = Pass(self._path, self._backward_name)
        _turn_of(first).ended.append(one)
        # Nested modules often share an output. The inner call ends first, so its backward range
        # opens last.
        _turn_of(last).begun.insert(0, one)

    def _wrap_checkpoint(self, module: Any) -> None:
        function = module.__dict__.get(_CHECKPOINT)
        if function is not None and not isinstance(function, _Checkpoint):
            module._gradient_checkpointing_func = _Checkpoint(function, self, self._everyone)

    def detach(self, module: Any) -> None:
        if self._has_checkpoint and module is not None:
            function = module.__dict__.get(_CHECKPOINT)
            if isinstance(function, _Checkpoint):
                module._gradient_checkpointing_func = function.function


class _Checkpoint:
    """A model's checkpoint function, which opens the layer's range during recomputation."""

    def __init__(self, function: Callable[..., Any], owner: _Named, everyone: _Table) -> None:
        self.function = function
        self._owner = owner
        self._everyone = everyone

    def __call__(self, run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        named = None if torch.compiler.is_compiling() or is_captured() else self._named(run)
        if named is None:
            return self.function(run, *args, **kwargs)

        @functools.wraps(run, assigned=(), updated=())
        def ranged(*args: Any, **kwargs: Any) -> Any:
            if not is_backward():
                return run(*args, **kwargs)
            depth = open_range(named, named.recompute_name)
            try:
                return run(*args, **kwargs)
            finally:
                close_down_to(depth)

        return self.function(ranged, *args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., Any]:
        """Copy only the original function if the model is copied."""
        return copy.deepcopy(self.function, memo)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the original function if the model is pickled."""
        return functools.partial, (self.function,)

    def _named(self, run: Callable[..., Any]) -> _Named | None:
        """Return the recomputed layer; None for a module call, which has a range anyway."""
        bound: tuple[Any, ...] = ()
        while isinstance(run, functools.partial):
            bound = (*run.args, *bound)
            run = run.func
        module = getattr(run, "__self__", run)
        if isinstance(module, nn.Module):
            is_call = module is run or "call" in getattr(run, "__name__", "")
            return None if is_call else self._everyone.get(_ref(module), self._owner)
        if bound and isinstance(bound[0], nn.Module):
            return self._everyone.get(_ref(bound[0]), self._owner)
        return self._owner


class _Turn:
    """Gradient hook shared by all modules that use a tensor, because hooks are expensive."""

    __slots__ = ("begun", "ended", "is_leaf")
    __torch_unserializable__ = True  # otherwise torch.save of the tensor would warn about the hook

    def __init__(self, *, is_leaf: bool) -> None:
        self.begun: list[Pass] = []
        self.ended: list[Pass] = []
        self.is_leaf = is_leaf

    # The hook is also called inside compiled code.
    @unseen
    def __call__(self, gradient: object) -> None:
        del gradient
        prior = set_eval_frame(None)
        try:
            if self.begun:
                _open_backward(self.begun)
            for one in self.ended:
                _close_backward(one)
        except Exception:  # noqa: BLE001 - errors must not reach the program
            pass
        finally:
            # A leaf tensor outlives the graph, so its hook must not accumulate calls.
            if self.is_leaf:
                self.ended.clear()
            set_eval_frame(prior)


def _turn_of(tensor: torch.Tensor) -> _Turn:
    hooks = tensor._backward_hooks
    if hooks:
        for hook in hooks.values():
            if type(hook) is _Turn:
                return hook
    turn = _Turn(is_leaf=tensor.is_leaf)
    tensor.register_hook(turn)
    return turn


def _open_backward(passes: list[Pass]) -> None:
    """Open the backward ranges of calls that share an output, after closing sibling ranges."""
    stack = this_thread.open
    task = this_thread.tasks.current(graph_task_id(), _end_backward)
    for one in passes:
        one.task = task
        while stack and isinstance(owner := stack[-1][0], Pass) and not owner.holds(one):
            close_down_to(len(stack) - 1)
        open_range(one, one.name)


def _close_backward(one: Pass) -> None:
    stack = this_thread.open
    for depth in range(len(stack) - 1, -1, -1):
        owner = stack[depth][0]
        if owner is one:
            close_down_to(depth)
            return
        if not isinstance(owner, Pass):
            return


def _end_backward() -> None:
    """At the end of the autograd run, close backward ranges that no input gradient closed."""
    stack = this_thread.open
    while stack and isinstance(owner := stack[-1][0], Pass) and owner.is_over:
        close_down_to(len(stack) - 1)


def _first_with_grad(value: object) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        return value if value.requires_grad else None
    if not isinstance(value, tuple | list):
        if not isinstance(value, Mapping):
            return None
        value = value.values()
    for inner in value:
        result = _first_with_grad(inner)
        if result is not None:
            return result
    return None
