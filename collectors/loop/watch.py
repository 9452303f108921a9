"""Tells what the calls of modules are to a training loop: its steps, its evaluation, its models.

A call outside of any other module's is that of a root: the model that is trained, a second one, a
teacher, a loss. A root is trained if it has parameters that want gradients and is called for
training. Evaluation is the call of one that is trained in evaluation mode; or without gradients
between two steps, if only one is trained (the halves of a GAN call each other's so).

Nothing here needs a step to look like any other; nothing is changed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import torch
from torch import nn

from ..calls import (
    backward_calls,
    compiled_calls,
    module_calls,
    optimizer_steps,
)
from ..calls.beside_dynamo import has_compiled
from ..ranges import is_backward
from .home_thread import HomeThread
from .step_finder import StepFinder

CallKind = Literal["training", "evaluation", "other"]


class Observer(Protocol):
    """Hears of the calls of roots and of the bounds of steps."""

    def root_begins(
        self, module: nn.Module, kind: CallKind, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """Hear that a root is called."""

    def root_ended(self, module: nn.Module, kind: CallKind) -> None:
        """Hear that its call has ended."""

    def inner_begins(self) -> None:
        """Hear that a module is called inside of a root."""

    def step_is_over(self, *, is_part: bool) -> None:
        """Hear that a call for training begins a new step.

        `is_part` says that the one that is over belongs to the one before it.
        """

    def optimizer_stepped(self, parameter: torch.Tensor | None) -> None:
        """Hear that an optimizer has taken a step, and of one of the parameters that it trains."""

    def failed(self, error: Exception) -> None:
        """Hear that watching has failed and is over."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.depth = 0


class LoopWatch:
    """Watches a loop for an observer, from `start` to `stop`.

    Args:
        observer: hears what is seen.
        finds_steps: whether to find the steps; without it the program says where they are.
    """

    def __init__(self, observer: Observer, *, finds_steps: bool = True) -> None:
        self._observer = observer
        self.finds_steps = finds_steps
        self.home = HomeThread()
        self._steps = StepFinder()
        self._thread = _Thread()
        # The roots that are trained, and whether they are in training mode for that.
        self.trained: dict[nn.Module, bool] = {}
        # Whether a root is a trained one, holds one or lies in one, as far as it was asked.
        self._kin: dict[nn.Module, bool] = {}
        self._has_seen_optimizer = False
        self._last_optimizer: int | None = None
        # Whether the thread of the loop is known by one step alone, which may have been to warm up.
        self.may_move = False
        # Of a parameter of each root, or of the one that backward passes lead to.
        self._versions: dict[nn.Module | None, int] = {}
        self._leaf: torch.Tensor | None = None
        self._sees_compiled_calls = False
        self.wants_inner = False

    def start(self) -> None:
        """Hear of calls from now on."""
        module_calls.listen(self)
        optimizer_steps.listen(self)
        backward_calls.listen(self)

    def stop(self) -> None:
        """Hear of nothing more."""
        module_calls.unlisten(self)
        optimizer_steps.unlisten(self)
        backward_calls.unlisten(self)
        if self._leaf is not None:
            self._leaf = None
            compiled_calls.unlisten()
        # The program may need the memory of a model that it is done with.
        self.trained.clear()
        self._versions.clear()
        self._kin.clear()

    def find_no_steps(self) -> None:
        """Leave it to the observer to say where steps are."""
        self.finds_steps = False

    @property
    def has_stepped(self) -> bool:
        """Whether the optimizers have stepped since the step began."""
        return self._steps.is_over

    def take_change(self) -> bool:
        """Return whether what was taken for steps were parts of such as begin now; once."""
        return self._steps.take_change()

    def step_began(self) -> bool:
        """Take the step for a new one; return whether the one before it was a part of a step."""
        return self._steps.begin()

    def before(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> CallKind | None:
        """Hear that a module is called."""
        depth = self._thread.depth
        self._thread.depth = depth + 1
        # What a backward pass recomputes, and the copies that DataParallel makes, are no roots.
        if depth or is_backward() or getattr(module, "_is_replica", False):
            if self.wants_inner:
                self._observer.inner_begins()
            return None
        if self.home.is_elsewhere:
            return None
        kind = self._kind(module)
        if kind == "training":
            self._look_for_compiled_step(module)
            if self.finds_steps and self._steps.is_over:
                self._observer.step_is_over(is_part=self._steps.begin())
        self._observer.root_begins(module, kind, args, kwargs)
        return kind

    def after(self, module: nn.Module, token: Any, output: object) -> None:
        """Hear that its call has ended."""
        del output
        self._thread.depth -= 1
        if token is not None:
            self._observer.root_ended(module, token)

    def broken(self, error: Exception) -> None:
        """Hear that one of these has failed."""
        self.stop()
        self._observer.failed(error)

    def before_backward(self, tensors: Any) -> None:
        """Where nothing else of a step is seen, see it by what a backward pass leads to."""
        if self._has_seen_optimizer or self.trained or not has_compiled() or self._is_other_loop:
            return
        try:
            if self._leaf is None:
                self._leaf = _leaf_of(tensors)
                self._sees_compiled_calls = compiled_calls.listen(self._before_compiled_call)
                self._compare(None, self._leaf)
            elif not self._sees_compiled_calls:
                self._compare(None, self._leaf)
        except Exception as error:  # noqa: BLE001 - the program must not fail for us
            self.broken(error)

    def after_backward(self) -> None:
        """Hear nothing."""

    def _before_compiled_call(self) -> None:
        """See that a step was over before the call that begins the next."""
        try:
            self._compare(None, self._leaf)
        except Exception as error:  # noqa: BLE001
            self.broken(error)

    def before_optimizer_step(self, optimizer: Any, *, has_closure: bool) -> None:
        """See that a step of the loop begins here, where the optimizer is to call the model."""
        del optimizer
        if self._is_other_loop:
            return
        try:
            if has_closure and self.finds_steps and self._steps.is_over:
                self._observer.step_is_over(is_part=self._steps.begin())
        except Exception as error:  # noqa: BLE001 - the program must not fail for us
            self.broken(error)

    def after_optimizer_step(self, optimizer: Any) -> None:
        """Hear that an optimizer has taken a step."""
        if self._is_other_loop:
            if not self.may_move or id(optimizer) != self._last_optimizer:
                return
            # The optimizer of the one step there was goes on here.
            self.home.release()
        self._last_optimizer = id(optimizer)
        self._has_seen_optimizer = True
        try:
            self._steps.optimizer_stepped(id(optimizer))
            groups = getattr(optimizer, "param_groups", ())
            self._observer.optimizer_stepped(next((p for g in groups for p in g["params"]), None))
        except Exception as error:  # noqa: BLE001 - the program must not fail for us
            self.broken(error)

    @property
    def _is_other_loop(self) -> bool:
        # Autograd has threads of its own, on which hooks may step an optimizer.
        return self.home.is_elsewhere and not is_backward()

    def _look_for_compiled_step(self, module: nn.Module) -> None:
        """See the step of a compiled optimizer, which calls no hook, by what it has changed."""
        if not self._has_seen_optimizer and has_compiled():
            trained = next((p for p in module.parameters() if p.requires_grad), None)
            self._compare(module, trained)

    def _compare(self, module: nn.Module | None, parameter: torch.Tensor | None) -> None:
        """Take it for a step of an optimizer that a parameter has changed since the last time."""
        if parameter is None:
            return
        before = self._versions.get(module)
        self._versions[module] = parameter._version
        if before is not None and parameter._version != before:
            self._steps.optimizer_stepped("compiled")
            self._observer.optimizer_stepped(parameter)

    def _kind(self, module: nn.Module) -> CallKind:
        is_training = module.training
        if torch.is_grad_enabled():
            was_training = self.trained.get(module)
            if was_training is None:
                if not any(p.requires_grad for p in module.parameters()):
                    return "other"
                self._kin.clear()
            elif was_training and not is_training:
                return "evaluation"
            self.trained[module] = is_training
            return "training"
        if not self._is_kin(module):
            return "other"
        if not is_training or (self._steps.is_over and len(self.trained) == 1):
            return "evaluation"
        return "other"

    def _is_kin(self, module: nn.Module) -> bool:
        """Tell whether a root is a trained one, or the same model in other wrappings."""
        if module in self.trained:
            return True
        found = self._kin.get(module)
        if found is None:
            inside = set(module.modules())
            found = any(
                root in inside or any(inner is module for inner in root.modules())
                for root in self.trained
            )
            self._kin[module] = found
        return found


def _leaf_of(tensors: Any) -> torch.Tensor | None:
    """Return a parameter that a backward pass from here leads to."""
    first = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
    node = getattr(first, "grad_fn", None)
    seen: set[Any] = set()
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            return variable
        waiting += [following for following, _ in node.next_functions]
    return None
