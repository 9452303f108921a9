"""The phases of a training loop that someone else wrote, found by hooks.

Forward is the call of the model. Backward is `torch.autograd.backward`, which `Tensor.backward`
and so every framework goes through; it has no hook and is replaced while this is attached. The
optimizer phase is the step of any `torch.optim.Optimizer`. An engine such as DeepSpeed's, which has
`backward` and `step` of its own, has phases around those, so that its communication is inside.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from .ranges import Phase, Range, is_backward, phase


class LoopPhases:
    """Ranges around the phases of a loop, while they are attached.

    Args:
        model: its calls are the forward phase.
        optimizer: one that is no `torch.optim.Optimizer`, or None.
    """

    def __init__(self, model: nn.Module, optimizer: Any = None) -> None:
        self._model = model
        self._optimizer = optimizer
        self._open = _Open()
        self._undo: list[Callable[[], None]] = []

    def attach(self) -> None:
        """Open the ranges from now on; those of the model lie around ranges attached before."""
        if self._undo:
            return
        forward = functools.partial(self._begin, "forward")
        handles: list[Any] = [
            self._model.register_forward_pre_hook(forward, prepend=True),
            self._model.register_forward_hook(
                functools.partial(self._end, "forward"), always_call=True
            ),
            register_optimizer_step_pre_hook(functools.partial(self._begin, "optimizer")),
            register_optimizer_step_post_hook(functools.partial(self._end, "optimizer")),
        ]
        self._undo += [handle.remove for handle in handles]
        self._wrap(torch.autograd, "backward", "backward")
        if hasattr(self._model, "backward") and hasattr(self._model, "step"):
            self._wrap(self._model, "backward", "backward")
            self._wrap(self._model, "step", "optimizer")
        if self._optimizer is not None and not isinstance(self._optimizer, Optimizer):
            self._wrap(self._optimizer, "step", "optimizer")

    def detach(self) -> None:
        """Take everything away again."""
        while self._undo:
            self._undo.pop()()

    def reset(self) -> None:
        """Forget what an exception left open; the range of the step closed it."""
        self._open.counts.clear()
        self._open.ranges.clear()

    def _begin(self, name: Phase, *_: Any) -> None:
        # In backward it is a reentrant checkpoint's, inside of the phase. Without anything to undo
        # this was detached by a hook before it, and torch calls it all the same.
        if is_backward() or not self._undo:
            return
        depth = self._open.counts.get(name, 0)
        self._open.counts[name] = depth + 1
        if depth == 0:
            self._open.ranges[name] = phase(name)
            self._open.ranges[name].__enter__()

    def _end(self, name: Phase, *_: Any) -> None:
        if is_backward():
            return
        depth = self._open.counts.get(name, 0) - 1
        if depth >= 0:
            self._open.counts[name] = depth
        if depth == 0:
            self._open.ranges.pop(name).__exit__(None, None, None)

    def _wrap(self, owner: Any, name: str, phase_name: Phase) -> None:
        """Put a phase around a function of a module or a method of an object."""
        original = getattr(owner, name)
        is_own = name in vars(owner)

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self._begin(phase_name)
            try:
                return original(*args, **kwargs)
            finally:
                self._end(phase_name)

        def undo() -> None:
            if vars(owner).get(name) is wrapper:
                if is_own:
                    setattr(owner, name, original)
                else:
                    delattr(owner, name)

        setattr(owner, name, wrapper)
        self._undo.append(undo)


class _Open(threading.local):
    """The phases that are open on this thread, and how often each was begun."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.ranges: dict[str, Range] = {}
