"""Sees the steps of every `torch.optim.Optimizer`, unseen by Dynamo.

Torch has hooks for all optimizers. While somebody listens there is one of ours of each kind. In a
compiled step they are traced and are nothing there, so that such a step is not told of. Dynamo
guards on which hooks there are: once it has compiled a step, none comes and none goes; what is left
does nothing.
"""

from __future__ import annotations

import contextlib
from types import CodeType
from typing import Any, Protocol

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from .beside_dynamo import has_compiled, is_compiled, set_eval_frame, unseen


class Listener(Protocol):
    """Hears of each step of an optimizer."""

    def before_optimizer_step(self, optimizer: Any, *, has_closure: bool) -> None:
        """Hear that a step begins; with a closure it calls the model itself."""

    def after_optimizer_step(self, optimizer: Any) -> None:
        """Hear that a step has ended."""


_listeners: tuple[Listener, ...] = ()
_handles: list[Any] = []


def listen(listener: Listener) -> None:
    """Let a listener hear of all steps from now on; the first to listen is outermost."""
    global _listeners
    if not _handles and not _is_step_compiled():
        _handles.append(register_optimizer_step_pre_hook(_pre_hook))
        _handles.append(register_optimizer_step_post_hook(_post_hook))
    _listeners = (*_listeners, listener)


def unlisten(listener: Listener) -> None:
    """Let a listener hear nothing more; does nothing if it does not listen."""
    global _listeners
    _listeners = tuple(other for other in _listeners if other is not listener)
    if not _listeners and not _is_step_compiled():
        while _handles:
            _handles.pop().remove()


def _is_step_compiled() -> bool:
    """Tell whether Dynamo has compiled what torch puts around the step of an optimizer."""
    constants = Optimizer.profile_hook_step.__code__.co_consts
    wrapper = next((one for one in constants if isinstance(one, CodeType)), None)
    if wrapper is None:
        return has_compiled()
    return has_compiled() and is_compiled(wrapper)


def forget_all() -> None:
    """Let nobody hear of anything more: in the child of a fork, which is not what is recorded."""
    for listener in _listeners:
        unlisten(listener)


@unseen
def _pre_hook(optimizer: Any, args: Any, kwargs: Any) -> None:
    if torch.compiler.is_compiling():
        return
    # The first of these is the optimizer.
    has_closure = kwargs.get("closure", args[1] if len(args) > 1 else None) is not None
    _tell("before_optimizer_step", optimizer, listeners=_listeners, has_closure=has_closure)


@unseen
def _post_hook(optimizer: Any, args: Any, kwargs: Any) -> None:
    del args, kwargs
    if torch.compiler.is_compiling():
        return
    _tell("after_optimizer_step", optimizer, listeners=_listeners[::-1])


@unseen
def _tell(name: str, optimizer: Any, *, listeners: tuple[Listener, ...], **how: bool) -> None:
    prior = set_eval_frame(None)
    try:
        for listener in listeners:
            with contextlib.suppress(Exception):  # the program must not fail for us
                getattr(listener, name)(optimizer, **how)
    finally:
        set_eval_frame(prior)
