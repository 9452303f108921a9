"""Classifies module calls in a training loop as step, evaluation, or auxiliary model.

A root is a module that no other module calls: the trained model, a second model, a teacher, or a
loss. A root is trained if it has parameters that require gradients and is called with gradients
enabled. In evaluation mode, calls of a trained root or its copy are evaluation. In training mode,
they belong to the step, even without gradients. In either mode, text generation in every step
belongs to the step, and so does a copy that every step calls (a teacher). A model of another class
that is called in evaluation mode without gradients is a teacher, too.

Steps need not make the same calls. The program's state is unchanged.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import nn

from ..calls import module_calls, training_hooks
from ..calls.dynamo_bypass import has_compiled, listen_to_compiled, unlisten_to_compiled
from ..calls.module_paths import unwrapped
from ..ranges import is_backward
from .tokens import token_ids
from .trained_models import is_alike, shares_modules, trained_part

if TYPE_CHECKING:
    from .recorder import LoopRecorder

CallKind = Literal["training", "gradless", "generation", "evaluation", "teacher", "other"]
StepBounds = Literal["detected", "reported", "optimizer"]
_Flags = WeakKeyDictionary[nn.Module, bool]


class Observer:
    recorder: LoopRecorder | None = None

    def training_call_begins(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """Notification that a root is called for training."""

    def step_is_over(self, *, is_part: bool) -> None:
        """Notification that a step is over; if `is_part`, it was only part of the previous step."""

    def loop_begins(self, called: list[nn.Module], optimizer: Any) -> None:
        """Notification that another loop begins, which has `called` these roots so far."""

    def loop_goes_on(self) -> None:
        """Notification that the apparent new loop is part of the previous loop."""

    def optimizer_stepped(self, parameter: torch.Tensor | None) -> None:
        """Notification of an optimizer step; `parameter` is one of its parameters, if known."""

    def stepped_elsewhere(self) -> None:
        """Notification that an optimizer of the loop has stepped on another thread."""

    def failed(self, error: Exception) -> None:
        """Notification that observation has ended because of an error."""


class _Calls(threading.local):
    depth = 0


class LoopWatch(training_hooks.Listener):
    """Observes a loop from `start` to `stop`.

    `bounds` is how steps are delimited: by calls, reports of the program, or optimizer steps.
    """

    def __init__(self, observer: Observer, bounds: StepBounds = "detected") -> None:
        self._observer = observer
        self.bounds = bounds
        self.thread = RecordingThread()
        self.steps = StepFinder()
        self._calls = _Calls()
        # The trained roots, with their training mode while they are trained.
        self.trained: _Flags = WeakKeyDictionary()
        # Cache by root: whether it shares modules with a trained model.
        self._kin: _Flags = WeakKeyDictionary()
        # By root: the submodule whose mode counts as the root's mode.
        self._trained_parts: WeakKeyDictionary[nn.Module, weakref.ref[nn.Module]] = (
            WeakKeyDictionary()
        )
        # Cache by root: whether it is or contains a copy of a trained model.
        self._copies: _Flags = WeakKeyDictionary()
        # By kind: the last step with a gradient-free call, and whether the previous step had one.
        self._called_at: dict[object, tuple[int, bool]] = {}
        self._last_shape: tuple[int, ...] | None = None
        # Shape (sequences, tokens) of the text being generated, at the start and now.
        # `_trained_beginnings` has the initial shapes of all generated texts on which the loop
        # trained, because several steps may use one text.
        self._generated: tuple[tuple[int, ...], tuple[int, int]] | None = None
        self._trained_beginnings: set[tuple[int, ...]] = set()
        # The optimizers of the loop, each with the roots that were called before its first step.
        self._optimizers: dict[Any, list[weakref.ref[nn.Module]]] = {}
        self._step_counts: Counter[Any] = Counter()
        self._replaced: set[Any] = set()
        self._called: WeakKeyDictionary[nn.Module, None] = WeakKeyDictionary()
        self._has_seen_optimizer = False
        self._last_optimizer: int | None = None
        # Whether only a single step, possibly a warm-up, identifies the loop's thread.
        self.may_move = False
        # Version of one parameter of each root. Key `self` has the version of parameter `_leaf`,
        # which backward passes reach.
        self._versions: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._leaf: torch.Tensor | None = None
        # Whether optimizer steps are visible only as changes of parameter versions.
        self.has_compiled_optimizer = False
        self._sees_compiled_calls = False
        self._wants_inner = False

    def start(self) -> None:
        module_calls.listen(self)
        training_hooks.listen(self)

    def stop(self) -> None:
        module_calls.unlisten(self)
        training_hooks.unlisten(self)
        if self._leaf is not None:
            self._leaf = None
            unlisten_to_compiled()

    @property
    def wants_inner(self) -> bool:
        return self._wants_inner

    @wants_inner.setter
    def wants_inner(self, wanted: bool) -> None:
        self._wants_inner = wanted
        module_calls.wants_changed()

    @property
    def optimizers(self) -> list[Any]:
        return [*self._optimizers]

    def before(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> CallKind | None:
        depth = self._calls.depth
        self._calls.depth = depth + 1
        # Modules recomputed in a backward pass and replicas of DataParallel are not roots.
        if depth or is_backward() or getattr(module, "_is_replica", False):
            if self.wants_inner and self._observer.recorder is not None:
                self._observer.recorder.inner_begins()
            return None
        if self.thread.is_elsewhere:
            return None
        kind = self._kind(module, args, kwargs)
        if kind == "training":
            self._look_for_compiled_step(module)
            self._called[module] = None
            self._last_shape = None
            self._note_trained_text(args, kwargs)
        is_of_step = kind in ("training", "gradless", "generation")
        if is_of_step and self.bounds == "detected" and self.steps.is_over:
            self._observer.step_is_over(is_part=self.steps.begin())
        if self._observer.recorder is not None:
            self._observer.recorder.root_begins(module, kind, args, kwargs)
        elif kind == "training":
            self._observer.training_call_begins(module, args, kwargs)
        return kind

    def after(self, module: nn.Module, token: Any, output: object) -> None:
        del module, output
        self._calls.depth -= 1
        if token is not None and self._observer.recorder is not None:
            self._observer.recorder.root_ended(token)

    def broken(self, error: Exception) -> None:
        self.stop()
        self._observer.failed(error)

    def before_backward(self, tensors: Any) -> None:
        """Detect steps by changes to a parameter in the graph, if no module call is visible."""
        if self._observer.recorder is not None and not (self._is_other_loop or is_backward()):
            self._observer.recorder.phase_begins("backward")
        if self._has_seen_optimizer or self.trained or not has_compiled() or self._is_other_loop:
            return
        if self._leaf is None:
            self._leaf = _leaf_of(tensors)
            self._sees_compiled_calls = listen_to_compiled(self._before_compiled_call)
            self._compare(self, self._leaf)
        elif not self._sees_compiled_calls:
            self._compare(self, self._leaf)

    def after_backward(self) -> None:
        if self._observer.recorder is not None and not (self._is_other_loop or is_backward()):
            self._observer.recorder.phase_ended("backward")

    def _before_compiled_call(self) -> None:
        try:
            self._compare(self, self._leaf)
        except Exception as error:  # noqa: BLE001 - errors must not reach the program
            self.broken(error)

    def before_optimizer_step(self, optimizer: Any, *, has_closure: bool) -> None:
        """Detect the beginning of a step if the optimizer itself calls the model."""
        del optimizer
        is_over = self.bounds == "detected" and self.steps.is_over
        if has_closure and is_over and not self._is_other_loop:
            self._observer.step_is_over(is_part=self.steps.begin())
        if self._observer.recorder is not None and not self._is_other_loop:
            self._observer.recorder.phase_begins("optimizer")

    def after_optimizer_step(self, optimizer: Any) -> None:
        if self._is_other_loop:
            if not self.may_move or id(optimizer) != self._last_optimizer:
                if weakref.ref(optimizer) in self._optimizers:
                    self._observer.stepped_elsewhere()
                return
            # The optimizer that took the only step so far continues on this thread.
            self.thread.release()
        if self._observer.recorder is not None:
            self._observer.recorder.phase_ended("optimizer")
        self._last_optimizer = id(optimizer)
        self._has_seen_optimizer = True
        self._look_for_new_loop(optimizer)
        self._step_counts[weakref.ref(optimizer)] += 1
        self.steps.optimizer_stepped(weakref.ref(optimizer))
        self._called.clear()
        groups = getattr(optimizer, "param_groups", ())
        self._observer.optimizer_stepped(next((p for g in groups for p in g["params"]), None))

    def _look_for_new_loop(self, optimizer: Any) -> None:
        """Detect whether an optimizer that steps for the first time replaces earlier ones.

        A previous optimizer is replaced in any of these cases:

        - It or its models no longer exist.
        - It has not stepped in this step, and the new optimizer trains some of its parameters.
        - It has not stepped in this step, has stepped at least twice before, and none of its
          models is called any longer.

        If a replaced optimizer steps again, the optimizers take turns in one loop.
        """
        one = weakref.ref(optimizer)
        if one in self._optimizers:
            return
        mine = _parameters(optimizer)
        remaining = {
            other: models
            for other, models in self._optimizers.items()
            if (known := other()) is not None
            and not (models and all(model() is None for model in models))
            and (
                self.steps.has_in_step(other)
                or one in self._replaced
                or (mine.isdisjoint(_parameters(known)) and not self._is_left(other, models))
            )
        }
        if one in self._replaced and remaining:
            self._observer.loop_goes_on()
        ended = self._optimizers.keys() - remaining.keys()
        for other in ended:
            self.steps.forget(other)
            del self._step_counts[other]
        self._replaced |= ended
        called = list(self._called)
        if ended and not remaining:
            self.steps = StepFinder()
            self.trained = WeakKeyDictionary({one: self._is_training(one) for one in called})
            self._kin.clear()
            self._copies.clear()
            self._called_at.clear()
            self._observer.loop_begins(called, optimizer)
        self._optimizers = {**remaining, one: [weakref.ref(module) for module in called]}

    def _is_left(self, optimizer: Any, models: list[weakref.ref[nn.Module]]) -> bool:
        if not self._called or self._step_counts[optimizer] < 2:
            return False
        known = (model() for model in models)
        return not any(one is not None and shares_modules(one, self._called) for one in known)

    @property
    def _is_other_loop(self) -> bool:
        # Hooks may step an optimizer on autograd's threads.
        return self.thread.is_elsewhere and not is_backward()

    def _look_for_compiled_step(self, module: nn.Module) -> None:
        if not self._has_seen_optimizer and has_compiled():
            trained = next((p for p in module.parameters() if p.requires_grad), None)
            self._compare(module, trained)

    def _compare(self, owner: object, parameter: torch.Tensor | None) -> None:
        if parameter is None:
            return
        before = self._versions.get(owner)
        self._versions[owner] = parameter._version
        if before is not None and parameter._version != before:
            self.steps.optimizer_stepped("compiled")
            self.has_compiled_optimizer = True
            self._called.clear()
            self._observer.optimizer_stepped(parameter)

    def _kind(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> CallKind:
        is_training = self._is_training(module)
        was_training = self.trained.get(module)
        if torch.is_grad_enabled():
            if was_training and not is_training:
                return "evaluation"
            if was_training is None:
                if not is_training and self._is_copy(module):
                    return self._kind_of_copy(module)
                if not any(p.requires_grad for p in module.parameters()):
                    return "other"
                self._kin.clear()
                self._copies.clear()
            self.trained[module] = is_training
            return "training"
        if not self._is_kin(module):
            if not self.trained:  # the first step may generate or evaluate before it trains
                self._is_rollout(args, kwargs, is_training=is_training)
                self._is_in_each_step(id(module))
            if is_training or next(module.parameters(), None) is None:
                return "other"
            return self._kind_of_copy(module) if self._is_copy(module) else "teacher"
        is_rollout = self._is_rollout(args, kwargs, is_training=is_training)
        if is_training:
            return "generation" if is_rollout else "gradless"
        return "generation" if is_rollout else "evaluation"

    def _is_rollout(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, is_training: bool
    ) -> bool:
        """Return whether a call without gradients generates text on which the step then trains.

        Sequences grow by one token per call, or have one token with a KV cache. The first call of a
        generation is recognized only if the previous step had one, too, and so are all calls in
        evaluation mode, because an evaluation may also generate text, but not in every step.
        """
        ids = token_ids(args, kwargs)
        before, self._last_shape = self._last_shape, None if ids is None else tuple(ids.shape)
        grows = (
            before is not None
            and self._last_shape is not None
            and before[0] == self._last_shape[0]
            and self._last_shape[1] in (1, before[1] + 1)
        )
        self._note_generated(grows=grows)
        if self._generated is not None and self._generated[0] in self._trained_beginnings:
            return True
        if grows:
            return self._is_in_each_step(is_training) or is_training
        number = self.steps.number
        at, was_in_each = self._called_at.get(is_training, (-2, False))
        return at == number - 1 or (at == number and (was_in_each or is_training))

    def _note_generated(self, *, grows: bool) -> None:
        shape = self._last_shape
        if shape is None or len(shape) != 2:
            self._generated = None
        elif not grows or self._generated is None:
            self._generated = shape, (shape[0], shape[1])
        else:
            beginning, (count, length) = self._generated
            self._generated = beginning, (count, max(length + 1, shape[1]))

    def _note_trained_text(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Detect from a batch's shape that a step trains on generated text or part of it."""
        if self._generated is None:
            return
        beginning, (count, length) = self._generated
        self._generated = None
        ids = token_ids(args, kwargs)
        if ids is None or ids.ndim != 2 or length <= beginning[1]:
            return
        if ids.shape[0] <= count and abs(ids.shape[1] - length) <= 1:
            self._trained_beginnings.add(beginning)

    def _kind_of_copy(self, module: nn.Module) -> CallKind:
        """Distinguish a teacher, called in each step, from a copy evaluated between steps."""
        is_in_each = self._is_in_each_step(id(module))
        is_inside = bool(self._called) or self.steps.is_partial
        return "teacher" if is_in_each or is_inside else "evaluation"

    def _is_in_each_step(self, key: object) -> bool:
        number = self.steps.number
        at, was_in_each = self._called_at.get(key, (-2, False))
        if at != number:
            was_in_each = at == number - 1
            self._called_at[key] = number, was_in_each
        return was_in_each

    def _is_training(self, root: nn.Module) -> bool:
        reference = self._trained_parts.get(root)
        part = None if reference is None else reference()
        if part is None:
            part = trained_part(root)
            self._trained_parts[root] = weakref.ref(part)
        return part.training

    def _is_copy(self, module: nn.Module) -> bool:
        result = self._copies.get(module)
        if result is None:
            trained = [unwrapped(root) for root, is_training in self.trained.items() if is_training]
            result = any(is_alike(inner, root) for inner in module.modules() for root in trained)
            if trained:
                self._copies[module] = result
        return result

    def _is_kin(self, module: nn.Module) -> bool:
        if module in self.trained:
            return True
        result = self._kin.get(module)
        if result is None:
            result = self._kin[module] = shares_modules(module, self.trained)
        return result


def _parameters(optimizer: Any) -> set[int]:
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


def _leaf_of(tensors: Any) -> torch.Tensor | None:
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


_PATIENCE = 8
"""Number of times that an optimizer steps within a step before inactive optimizers are ignored."""


class StepFinder:
    """Detects where one step ends and the next begins.

    A step is over when every participating optimizer has stepped; the next begins when a model is
    called for training. So accumulated gradients, optimizers that step in turn, and the halves of a
    GAN's iteration form one step. A new optimizer ends the step as soon as it has stepped. One
    that has not stepped for a long time is ignored; if it steps again, the limit increases, because
    a GAN's critic may step ten times as often as its generator.
    """

    def __init__(self) -> None:
        self._taking_part: set[Hashable] = set()
        # Total number of optimizer steps at the last step of each optimizer.
        self._seen_at: dict[Hashable, int] = {}
        self._step_count = 0
        self._patience = _PATIENCE
        self._has_changed = False
        self._counts: dict[Hashable, int] = {}
        self._has_new = False
        self._last: frozenset[Hashable] = frozenset()
        self.last_kind: Hashable = None
        self._begun_count = 0

    def optimizer_stepped(self, key: Hashable) -> None:
        self._counts[key] = self._counts.get(key, 0) + 1
        self._step_count += 1
        if key not in self._taking_part:
            missed = self._step_count - self._seen_at.get(key, self._step_count)
            self._patience = max(self._patience, 2 * missed)
            self._has_changed |= bool(self._last)
            self._taking_part.add(key)
            self._has_new = True
        elif self._counts[key] >= self._patience:
            self._taking_part &= self._counts.keys()
        self._seen_at[key] = self._step_count

    def has_in_step(self, key: Hashable) -> bool:
        return key in self._counts

    def forget(self, key: Hashable) -> None:
        self._taking_part.discard(key)
        self._seen_at.pop(key, None)

    @property
    def is_over(self) -> bool:
        return bool(self._counts) and (self._has_new or self._taking_part <= self._counts.keys())

    @property
    def is_partial(self) -> bool:
        return bool(self._counts) and not self.is_over

    @property
    def number(self) -> int:
        """Number of the current step or, if that is over, of the next."""
        return self._begun_count + (self.is_over and not self._is_part)

    @property
    def _is_part(self) -> bool:
        """Whether this step has new optimizers, but no optimizer of the previous step."""
        return self._has_new and bool(self._last) and self._last.isdisjoint(self._counts)

    def take_change(self) -> bool:
        result, self._has_changed = self._has_changed, False
        return result

    def begin(self) -> bool:
        """Begin a step; return whether the previous step was part of its predecessor."""
        is_part = self._is_part
        self._begun_count += not is_part
        self._last = frozenset(self._counts)
        self.last_kind = frozenset(self._counts.items())
        self._counts.clear()
        self._has_new = False
        return is_part


class RecordingThread:
    """The thread on which a loop is recorded.

    torch.profiler observes the thread that started it, and exporting a trace on another thread
    crashes the process (SIGSEGV, torch 2.13). Training on other threads is therefore ignored, and a
    recording ends on its own thread, at the latest when that thread ends.
    """

    def __init__(self) -> None:
        self._local = threading.local()
        self.is_known = False
        # Number of the current binding. Marks of other threads have other numbers.
        self._number = 0

    def bind(self, at_end: Callable[[], object]) -> None:
        """Bind an unbound loop to this thread. `at_end` runs when the thread ends."""
        if self.is_known:
            return
        self.is_known = True
        self._number += 1
        number = self._number

        def end() -> None:
            if self._number == number:
                # The thread's mark is already destroyed, so is_elsewhere would be true on this
                # thread.
                self.is_known = False
                at_end()

        is_main = threading.current_thread() is threading.main_thread()
        self._local.mark = _Mark(number, None if is_main else end)

    def release(self) -> None:
        self.is_known = False
        self._number += 1

    @property
    def is_elsewhere(self) -> bool:
        mark = getattr(self._local, "mark", None)
        return self.is_known and (mark is None or mark.number != self._number)


class _Mark:
    """A thread-local object that is destroyed when its thread ends."""

    def __init__(self, number: int, at_end: Callable[[], None] | None) -> None:
        self.number = number
        self._at_end = at_end

    def __del__(self) -> None:
        if self._at_end is not None:
            with contextlib.suppress(Exception):  # an error here must not break the user's program
                self._at_end()
