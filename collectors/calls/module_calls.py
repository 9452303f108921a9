"""Observes every call of an `nn.Module` without registering hooks.

Dynamo guards on hooks, compiles them, and warns about global hooks. It neither sees nor inlines the
wrapper around `nn.Module.__call__` (see `dynamo_bypass`). So a compiled region is unchanged, and
modules called in it are not reported. Once Dynamo has compiled anything, the wrapper stays.

A listener that raises an exception is removed and notified of the exception.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import nn

from .dynamo_bypass import has_compiled, is_captured, set_eval_frame, unseen


class Listener(Protocol):
    wants_inner: bool
    """Whether to receive nested calls; otherwise they may be omitted."""

    def before(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        """Notification that a call begins; the return value is passed to `after`."""

    def after(self, module: nn.Module, token: object, output: object) -> None:
        """Notification that a call has ended; `output` is None after an exception."""

    def broken(self, error: Exception) -> None:
        """Notification that `before` or `after` raised and the listener was removed."""


_original: Callable[..., Any] = nn.Module.__call__
_TORCHS = nn.Module._wrapped_call_impl


class _Thread(threading.local):
    depth = 0  # nesting depth of reported calls


_thread = _Thread()
# Immutable, so that a call in progress on another thread keeps its listeners.
_listeners: tuple[Listener, ...] = ()
# Listeners that also receive nested calls.
_inner_listeners: tuple[Listener, ...] = ()
# Whether nested calls can skip the wrapper: no listener wants them, and the program has not
# replaced torch's function.
_skips_inner = False
# Looked up only once, because the wrapper runs for every module call.
_is_compiling = torch.compiler.is_compiling


def listen(listener: Listener) -> None:
    """Add a listener for all calls. The first listener sees a call begin first and end last."""
    global _listeners
    if not _listeners:
        _install()
    _listeners = (*_listeners, listener)
    wants_changed()


def unlisten(listener: Listener) -> None:
    global _listeners
    if listener not in _listeners:
        return
    _listeners = tuple(other for other in _listeners if other is not listener)
    wants_changed()
    if not _listeners:
        _uninstall()


def wants_changed() -> None:
    global _inner_listeners, _skips_inner
    _inner_listeners = tuple(listener for listener in _listeners if listener.wants_inner)
    _skips_inner = not _inner_listeners and _original is _TORCHS


def forget_all() -> None:
    """Remove all listeners in a forked child, because they belong to the parent's recording."""
    for listener in _listeners:
        unlisten(listener)


# functools.wraps gives the wrapper the name of torch's function, which Dynamo checks.
@unseen
@functools.wraps(_original)
def _call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
    # This check comes first, because Dynamo guards on anything that is read before it.
    if _is_compiling():
        return _original(self, *args, **kwargs)
    depth = _thread.depth
    # Fast path: most calls are nested, and timed steps ignore nested calls.
    if _skips_inner and depth and self._compiled_call_impl is None:
        return self._call_impl(*args, **kwargs)  # as torch's own function does
    listeners = _inner_listeners if depth else _listeners
    if not listeners:
        return _original(self, *args, **kwargs)
    prior = set_eval_frame(None)
    try:
        tokens = None if is_captured() else _before(listeners, self, args, kwargs)
    finally:
        set_eval_frame(prior)
    if tokens is None:
        return _original(self, *args, **kwargs)
    _thread.depth = depth + 1
    try:
        output = _original(self, *args, **kwargs)
    except BaseException:
        _thread.depth = depth
        prior = set_eval_frame(None)
        try:
            _after(listeners, self, tokens, None)
        finally:
            set_eval_frame(prior)
        raise
    _thread.depth = depth
    prior = set_eval_frame(None)
    try:
        _after(listeners, self, tokens, output)
    finally:
        set_eval_frame(prior)
    return output


def _before(
    listeners: tuple[Listener, ...],
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> list[object]:
    """Notify listeners of a call; return their results. Failed listeners are dropped."""
    tokens: list[object] = []
    for listener in listeners:
        try:
            tokens.append(listener.before(module, args, kwargs))
        except Exception as error:  # noqa: BLE001 - errors must not reach the program
            tokens.append(_drop)
            _drop(listener, error)
    return tokens


def _after(
    listeners: tuple[Listener, ...], module: nn.Module, tokens: list[object], output: object
) -> None:
    for listener in reversed(listeners):
        token = tokens.pop()
        if token is not _drop:
            try:
                listener.after(module, token, output)
            except Exception as error:  # noqa: BLE001
                _drop(listener, error)


def _drop(listener: Listener, error: Exception) -> None:
    unlisten(listener)
    listener.broken(error)


def _install() -> None:
    global _original
    if nn.Module.__call__ is not _call:
        _original = nn.Module.__call__
        nn.Module.__call__ = _call
        _register_with_dynamo(_original, _call)


def _uninstall() -> None:
    # If a class overrides `__call__` and calls torch's, Dynamo guards on the wrapper's code.
    # Removing the wrapper would trigger recompilation, so it stays.
    if has_compiled():
        return
    # If the program has added its own wrapper on top, tracekit's stays and calls torch's function.
    if nn.Module.__call__ is _call:
        nn.Module.__call__ = _original
        _register_with_dynamo(_call, _original)


def _register_with_dynamo(old: Callable[..., Any], new: Callable[..., Any]) -> None:
    """Make Dynamo treat the wrapper as torch's own function.

    Dynamo goes from a module call directly to the module's `forward` if `__call__` is the function
    that existed when Dynamo was loaded.
    """
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        module = sys.modules.get(name)
        if module is not None and vars(module).get("unpatched_nn_module_call") is old:
            setattr(module, "unpatched_nn_module_call", new)  # noqa: B010 - not in the stubs
