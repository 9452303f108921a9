"""Ranges of a recorded loop: steps, phases, and modules.

The forward phase covers calls of models and of other modules, such as a loss. For engines with
`backward` and `step` methods, such as DeepSpeed, the phases enclose these methods, including their
communication.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from ..calls import training_hooks
from ..calls.dynamo_bypass import has_compiled, is_captured, set_eval_frame, unseen
from ..ranges import ModuleRanges, Phase, Range, is_backward, phase, step, step_end
from ..ranges.attention_parts import AttentionRanges
from .watch import RecordingThread


class LoopRanges(training_hooks.Listener):
    """Ranges of a loop while attached. Calls on other threads than `thread` have no phase.

    `accumulated` contains the number of backward passes before each optimizer step. The first of
    `models` is the trained model or its engine, whose paths have no prefix. Paths of other models
    begin with the class name. Models are referenced only while ranges are attached.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        optimizer: Any,
        thread: RecordingThread,
        *,
        has_backward_ranges: bool = False,
    ) -> None:
        self._model = weakref.ref(models[0])
        self._optimizer = optimizer
        self._thread = thread
        self._modules = ModuleRanges(models[0], backward=has_backward_ranges)
        for model in models[1:]:
            self._modules.add(model)
        self._parts = [AttentionRanges(model) for model in models]
        self._step: Range | None = None
        self._open = _Open()
        self._undo: list[Callable[[], None]] = []
        self._pass_count = 0
        self._accumulated_in_step: list[int] = []
        self.accumulated: list[int] = []

    @property
    def is_attached(self) -> bool:
        return bool(self._undo)

    def attach(self) -> None:
        # Dynamo guards on a model's attention function and the functions of its file. Replacing
        # them would trigger recompilation.
        if not has_compiled():
            for parts in self._parts:
                parts.attach()
        self._modules.attach()
        if self._undo:
            return
        training_hooks.listen(self)
        self._undo.append(lambda: training_hooks.unlisten(self))
        model = self._model()
        if hasattr(model, "backward") and hasattr(model, "step"):
            self._wrap(model, "backward", "backward")
            self._wrap(model, "step", "optimizer")
        if self._optimizer is not None and not isinstance(self._optimizer, Optimizer):
            self._wrap(self._optimizer, "step", "optimizer")

    def detach(self) -> None:
        self._detach_phases()
        self._modules.detach()
        for parts in self._parts:
            parts.detach()

    def leave(self) -> None:
        self._step = None
        self._detach_phases()

    def forget(self) -> None:
        self._optimizer = None

    def begin_step(self, number: int) -> None:
        if self.is_attached:
            # Ranges left open by an exception were closed with the range of their step.
            self._open.counts.clear()
            self._open.ranges.clear()
            self._pass_count = 0
            self._accumulated_in_step.clear()
            self.resume_step(number)

    def resume_step(self, number: int, *, is_anew: bool = False) -> None:
        """Reopen the range of a step after evaluation has closed it."""
        if self.is_attached and self._step is None:
            self._step = step(number, is_anew=is_anew)
            self._step.__enter__()

    def mark_end(self, number: int, passed_ns: int) -> None:
        if self._step is not None:
            with step_end(number, passed_ns):
                pass

    def end_step(self) -> None:
        self.close_step()
        if self.is_attached:
            self.accumulated += self._accumulated_in_step

    def close_step(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    @contextlib.contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        self._begin_phase(name)
        try:
            yield
        finally:
            self._end_phase(name)

    def root_begins(self, module: nn.Module, phase: Phase) -> None:
        if self.is_attached:
            if module not in self._modules:
                self._modules.add(module)
            self._begin_phase(phase)

    def root_ended(self, phase: Phase) -> None:
        if self.is_attached:
            self._end_phase(phase)

    def _detach_phases(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _begin_phase(self, name: Phase) -> None:
        # A call during a backward pass comes from a reentrant checkpoint and belongs to the
        # backward phase.
        if is_backward() or not self._undo or self._thread.is_elsewhere:
            return
        depth = self._open.counts.get(name, 0)
        self._open.counts[name] = depth + 1
        if depth == 0:
            self._pass_count += name == "backward"
            self._open.ranges[name] = phase(name)
            self._open.ranges[name].__enter__()

    def _end_phase(self, name: Phase) -> None:
        if is_backward() or self._thread.is_elsewhere:
            return
        depth = self._open.counts.get(name, 0) - 1
        if depth >= 0:
            self._open.counts[name] = depth
        if depth == 0:
            opened = self._open.ranges.pop(name, None)
            if opened is not None:
                opened.__exit__(None, None, None)

    def before_backward(self, tensors: Any) -> None:
        del tensors
        self._begin_phase("backward")

    def after_backward(self) -> None:
        self._end_phase("backward")

    def before_optimizer_step(self, optimizer: Any, *, has_closure: bool) -> None:
        del optimizer, has_closure
        self._begin_phase("optimizer")

    def after_optimizer_step(self, optimizer: Any) -> None:
        del optimizer
        self._end_phase("optimizer")
        # Optimizers that step in sequence share the backward passes before the first of them.
        if self._pass_count and (is_backward() or not self._thread.is_elsewhere):
            self._accumulated_in_step.append(self._pass_count)
            self._pass_count = 0

    def _wrap(self, owner: Any, name: str, phase_name: Phase) -> None:
        """Open a phase around a method of one object, with a wrapper in the object's class.

        A wrapper in the object would be pickled with the object, and a copy would call the
        original's method.
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
            _unseen_call(self._begin_phase, phase_name)
            try:
                return function(self_, *args, **kwargs)
            finally:
                _unseen_call(self._end_phase, phase_name)

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
        if not is_captured():
            function(name)
    finally:
        set_eval_frame(prior)


class _Open(threading.local):
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.ranges: dict[str, Range] = {}
