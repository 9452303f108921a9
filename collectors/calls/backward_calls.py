"""Sees every backward pass, unseen by Dynamo.

`Tensor.backward`, and so every framework, goes through `torch.autograd.backward`, which has no
hook: while somebody listens it is a function of ours around torch's own.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, Protocol

import torch

from .beside_dynamo import set_eval_frame, unseen


class Listener(Protocol):
    """Hears of each backward pass."""

    def before_backward(self, tensors: Any) -> None:
        """Hear that one begins, from a tensor or several."""

    def after_backward(self) -> None:
        """Hear that it has ended."""


_listeners: tuple[Listener, ...] = ()
_original: Callable[..., Any] = torch.autograd.backward


def listen(listener: Listener) -> None:
    """Let a listener hear of all passes from now on."""
    global _listeners, _original
    if not _listeners and torch.autograd.backward is not _backward:
        _original = torch.autograd.backward
        torch.autograd.backward = _backward
    _listeners = (*_listeners, listener)


def unlisten(listener: Listener) -> None:
    """Let a listener hear nothing more; does nothing if it does not listen."""
    global _listeners
    _listeners = tuple(other for other in _listeners if other is not listener)
    if not _listeners and torch.autograd.backward is _backward:
        torch.autograd.backward = _original


def forget_all() -> None:
    """Let nobody hear of anything more: in the child of a fork, which is not what is recorded."""
    for listener in _listeners:
        unlisten(listener)


@unseen
@functools.wraps(_original)
def _backward(*args: Any, **kwargs: Any) -> Any:
    if torch.compiler.is_compiling():
        return _original(*args, **kwargs)
    told = _listeners
    _tell(told, args, kwargs)
    try:
        return _original(*args, **kwargs)
    finally:
        _tell_end(told)


@unseen
def _tell(listeners: tuple[Listener, ...], args: Any, kwargs: Any) -> None:
    prior = set_eval_frame(None)
    try:
        tensors = args[0] if args else kwargs.get("tensors")
        for listener in listeners:
            with contextlib.suppress(Exception):  # the program must not fail for us
                listener.before_backward(tensors)
    finally:
        set_eval_frame(prior)


@unseen
def _tell_end(listeners: tuple[Listener, ...]) -> None:
    prior = set_eval_frame(None)
    try:
        for listener in reversed(listeners):
            with contextlib.suppress(Exception):
                listener.after_backward()
    finally:
        set_eval_frame(prior)
