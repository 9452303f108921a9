"""The phases of a training loop that someone else wrote.

Forward is the call of a model, and of whatever else is called outside of any model in a step, such
as a loss. A call in evaluation mode, also of a copy of the model, is evaluation; what generates
text for a step to train on is generation.
Backward is every backward pass, and the optimizer phase the step of any `torch.optim.Optimizer`. An
engine such as DeepSpeed's, which has `backward` and `step` of its own,
has phases around those, so that its communication is inside.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from ..calls import backward_calls, optimizer_steps
from ..calls.beside_dynamo import set_eval_frame, unseen
from ..ranges import Phase, Range, is_backward, phase
from .home_thread import HomeThread


class LoopPhases:
    """Ranges around the phases of a loop, while they are attached.

    Args:
        model: the model that is trained; it may be an engine.
        optimizer: one that is no `torch.optim.Optimizer`, or None.
        home: the thread of the loop; what happens on others has no phase.
    """

    def __init__(
        self, model: nn.Module, optimizer: Any = None, home: HomeThread | None = None
    ) -> None:
        self._model: nn.Module | None = model
        self._home = home or HomeThread()
        self._optimizer = optimizer
        self._open = _Open()
        self._undo: list[Callable[[], None]] = []
        self._pass_count = 0
        # For each step of the optimizers, how many backward passes came before it.
        self.accumulated: list[int] = []

    @property
    def is_attached(self) -> bool:
        """Whether phases have ranges."""
        return bool(self._undo)

    def attach(self) -> None:
        """Open the ranges from now on."""
        if self._undo:
            return
        optimizer_steps.listen(self)
        backward_calls.listen(self)
        self._undo.append(lambda: optimizer_steps.unlisten(self))
        self._undo.append(lambda: backward_calls.unlisten(self))
        if hasattr(self._model, "backward") and hasattr(self._model, "step"):
            self._wrap(self._model, "backward", "backward")
            self._wrap(self._model, "step", "optimizer")
        if self._optimizer is not None and not isinstance(self._optimizer, Optimizer):
            self._wrap(self._optimizer, "step", "optimizer")

    def detach(self) -> None:
        """Take everything away again."""
        while self._undo:
            self._undo.pop()()

    def forget(self) -> None:
        """Let go of the model and its optimizer; nothing is attached after it."""
        self.detach()
        self._model = self._optimizer = None

    def reset(self) -> None:
        """Forget what an exception left open; the range of the step closed it."""
        self._open.counts.clear()
        self._open.ranges.clear()
        self._pass_count = 0
        self.accumulated.clear()

    def begin(self, name: Phase) -> None:
        """Open a phase, unless it is open or nothing is attached."""
        # In backward it is a reentrant checkpoint's, inside of the phase.
        if is_backward() or not self._undo or self._home.is_elsewhere:
            return
        depth = self._open.counts.get(name, 0)
        self._open.counts[name] = depth + 1
        if depth == 0:
            self._pass_count += name == "backward"
            self._open.ranges[name] = phase(name)
            self._open.ranges[name].__enter__()

    def end(self, name: Phase) -> None:
        """Close a phase, if this is the end of what opened it."""
        if is_backward() or self._home.is_elsewhere:
            return
        depth = self._open.counts.get(name, 0) - 1
        if depth >= 0:
            self._open.counts[name] = depth
        if depth == 0:
            opened = self._open.ranges.pop(name, None)
            if opened is not None:
                opened.__exit__(None, None, None)

    def before_backward(self, tensors: Any) -> None:
        """Open the phase around a backward pass."""
        del tensors
        self.begin("backward")

    def after_backward(self) -> None:
        """Close it."""
        self.end("backward")

    def before_optimizer_step(self, optimizer: Any, *, has_closure: bool) -> None:
        """Open the phase around the step of an optimizer."""
        del optimizer, has_closure
        self.begin("optimizer")

    def after_optimizer_step(self, optimizer: Any) -> None:
        """Close it."""
        del optimizer
        self.end("optimizer")
        # Optimizers that step one after the other share what came before the first.
        if self._pass_count and (is_backward() or not self._home.is_elsewhere):
            self.accumulated.append(self._pass_count)
            self._pass_count = 0

    def _wrap(self, owner: Any, name: str, phase_name: Phase) -> None:
        """Put a phase around a method of an object, in its class.

        Were it put into the object, copies of it and files would hold what is ours, and a copy
        would call the method of the object that it was copied from.
        """
        kind = type(owner)
        original = inspect.getattr_static(kind, name, None)
        if name in getattr(owner, "__dict__", ()) or not inspect.isfunction(original):
            return
        is_own = name in vars(kind)
        function: Callable[..., Any] = original

        @functools.wraps(function)
        def wrapper(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or self_ is not owner:
                return function(self_, *args, **kwargs)
            _unseen_call(self.begin, phase_name)
            try:
                return function(self_, *args, **kwargs)
            finally:
                _unseen_call(self.end, phase_name)

        unseen(wrapper)

        def undo() -> None:
            if vars(kind).get(name) is wrapper:
                if is_own:
                    setattr(kind, name, function)
                else:
                    delattr(kind, name)

        setattr(kind, name, wrapper)
        self._undo.append(undo)


@unseen
def _unseen_call(function: Callable[[Phase], None], name: Phase) -> None:
    prior = set_eval_frame(None)
    try:
        function(name)
    finally:
        set_eval_frame(prior)


class _Open(threading.local):
    """The phases that are open on this thread, and how often each was begun."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.ranges: dict[str, Range] = {}
