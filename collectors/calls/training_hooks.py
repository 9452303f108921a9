"""Observes backward passes and uncompiled steps of any `torch.optim.Optimizer`, hidden from Dynamo.

All frameworks call `torch.autograd.backward`, which has no hooks. While there is a listener, a
wrapper replaces this function.

Dynamo traces the global optimizer hooks as no-ops, so a compiled step is not reported. Dynamo also
guards on the set of hooks, so after it has compiled a step, no hook is added or removed.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from .dynamo_bypass import has_compiled, is_captured, is_compiled, set_eval_frame, unseen


class Listener:
    def before_backward(self, tensors: Any) -> None:
        """Notification that a backward pass begins, from one or several tensors."""

    def after_backward(self) -> None:
        """Notification that a backward pass has ended."""

    def before_optimizer_step(self, optimizer: Any, *, has_closure: bool) -> None:
        """Notification that an optimizer step begins; with a closure, it also calls the model."""

    def after_optimizer_step(self, optimizer: Any) -> None:
        """Notification that an optimizer step has ended."""

    def broken(self, error: Exception) -> None:
        """Notification that a listener method raised; the program is not affected."""


_of_backward: tuple[Listener, ...] = ()
_of_steps: tuple[Listener, ...] = ()
_original: Callable[..., Any] = torch.autograd.backward
_handles: list[Any] = []
_stepping: set[tuple[int, int]] = set()
"""Thread id and optimizer id of each optimizer step in progress."""


def listen(listener: Listener, *, backward: bool = True) -> None:
    """Add a listener for optimizer steps, and for backward passes unless `backward` is False.

    The first listener sees a call begin first and end last.
    """
    global _of_backward, _of_steps, _original
    if not _handles and not _is_step_compiled():
        _handles.append(register_optimizer_step_pre_hook(_pre_hook))
        _handles.append(register_optimizer_step_post_hook(_post_hook))
    _of_steps = (*_of_steps, listener)
    if backward:
        if not _of_backward and torch.autograd.backward is not _backward:
            _original = torch.autograd.backward
            torch.autograd.backward = _backward
        _of_backward = (*_of_backward, listener)


def unlisten(listener: Listener) -> None:
    global _of_backward, _of_steps
    _of_steps = tuple(other for other in _of_steps if other is not listener)
    if not _of_steps and not _is_step_compiled():
        while _handles:
            _handles.pop().remove()
    _of_backward = tuple(other for other in _of_backward if other is not listener)
    if not _of_backward and torch.autograd.backward is _backward:
        torch.autograd.backward = _original


class _ForeignOptimizer:
    """Represents any optimizer that is not a `torch.optim.Optimizer`."""

    param_groups: tuple[Any, ...] = ()


_FOREIGN = _ForeignOptimizer()


def foreign_optimizer_stepped() -> None:
    _notify(_of_steps[::-1], "after_optimizer_step", _FOREIGN)


def forget_all() -> None:
    """Remove all listeners in a forked child, because they belong to the parent's recording."""
    for listener in _of_steps:
        unlisten(listener)


def _is_step_compiled() -> bool:
    constants = Optimizer.profile_hook_step.__code__.co_consts
    wrapper = next((one for one in constants if isinstance(one, CodeType)), None)
    if wrapper is None:
        return has_compiled()
    return has_compiled() and is_compiled(wrapper)


@unseen
@functools.wraps(_original)
def _backward(*args: Any, **kwargs: Any) -> Any:
    if torch.compiler.is_compiling():
        return _original(*args, **kwargs)
    listeners = _of_backward
    _notify(listeners, "before_backward", args[0] if args else kwargs.get("tensors"))
    try:
        return _original(*args, **kwargs)
    finally:
        _notify(listeners[::-1], "after_backward")


@unseen
def _pre_hook(optimizer: Any, args: Any, kwargs: Any) -> None:
    if torch.compiler.is_compiling():
        return
    _stepping.add((threading.get_ident(), id(optimizer)))
    # The first positional argument is the optimizer.
    has_closure = kwargs.get("closure", args[1] if len(args) > 1 else None) is not None
    _notify(_of_steps, "before_optimizer_step", optimizer, has_closure=has_closure)


@unseen
def _post_hook(optimizer: Any, args: Any, kwargs: Any) -> None:
    del args, kwargs
    if torch.compiler.is_compiling():
        return
    # Without the pre-hook, the step was partly compiled and is not reported.
    one = threading.get_ident(), id(optimizer)
    if one in _stepping:
        _stepping.discard(one)
        _notify(_of_steps[::-1], "after_optimizer_step", optimizer)


def _nothing(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Replace a hook while Dynamo traces, so that its statistics do not count the hook."""


for _hook in (_pre_hook, _post_hook):
    _hook._torchdynamo_inline = _nothing  # type: ignore[attr-defined]


@unseen
def _notify(listeners: tuple[Listener, ...], name: str, *args: Any, **how: bool) -> None:
    prior = set_eval_frame(None)
    try:
        for listener in () if is_captured() else listeners:
            with contextlib.suppress(Exception):  # errors must not reach the program
                try:
                    getattr(listener, name)(*args, **how)
                except Exception as error:  # noqa: BLE001
                    listener.broken(error)
    finally:
        set_eval_frame(prior)
