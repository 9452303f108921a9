"""The training loop of a program that is recorded, from inside of it.

The first step tells which models are trained: those called outside of any other. From then on a
step begins where a model is called for training after every optimizer took a step. So several
optimizers, accumulated gradients and engines that step group by group make one step each. In a
later stage of a pipeline the next begins at once: what it is to be called with it waits for, and
so for all that the first stage does between two steps. A process in which no optimizer takes a step
is left alone.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from tracekit.errors import WorkloadError

from ..calls import (
    backward_calls,
    module_calls,
    optimizer_steps,
)
from ..calls.beside_dynamo import IS_POSSIBLE, has_compiled
from ..process.job import current_place
from ..profiler.loop_profilers import LoopProfilers
from ..ranges import is_backward
from .claims import UNRECORDED, claim
from .plan import LoopPlan
from .trained_models import outermost, owner_of, owner_of_parts
from .watch import CallKind, LoopWatch

if TYPE_CHECKING:
    from .recorder import LoopRecorder


def watch(folder: str, unusable: Callable[[str, str], None]) -> None:
    """Record what this process trains.

    Args:
        folder: holds the plan, and takes the report.
        unusable: says in the folder why this process is not recorded.
    """
    global _loop
    _loop = _Loop(Path(folder), LoopPlan.read(Path(folder)), unusable)
    _loop.watch()


def leave_to_program() -> None:
    """Record nothing more here: the program does so itself, and two profilers end in a crash."""
    if _loop is not None:
        _loop.leave_to_program()


_loop: _Loop | None = None


class _Loop:
    """The training loop of this process, if it turns out to have one."""

    def __init__(self, folder: Path, plan: LoopPlan, unusable: Callable[[str, str], None]) -> None:
        self._folder = folder
        self._tell_unusable = unusable
        self._plan = plan
        self._called: dict[nn.Module, None] = {}
        self._watch: LoopWatch | None = None
        self._profilers: LoopProfilers | None = None
        self._recorder: LoopRecorder | None = None
        self._beginning = threading.Lock()
        self._lone_step_count = 0
        self._is_by_optimizer = False
        self._pid = os.getpid()
        self._error_before: BaseException | None = None
        self._loop_count = 1
        self._before_count = 0

    def watch(self) -> None:
        """Wait for a model to be called and an optimizer to take a step."""
        if not IS_POSSIBLE:
            self._unusable("this torch cannot keep what watches it out of torch.compile's sight")
            return
        os.register_at_fork(after_in_child=self._forked)
        self._profilers = LoopProfilers()
        self._profilers.attach()
        self._watch = LoopWatch(self)
        self._watch.start()

    def root_begins(
        self, module: nn.Module, kind: CallKind, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """Remember what is trained; once that is known, record."""
        if self._recorder is not None:
            self._recorder.root_begins(module, kind, args, kwargs)
        elif kind == "training":
            if not self._called:
                self._is_by_optimizer = _is_given_activations(args, kwargs)
            self._called[module] = None

    def root_ended(self, module: nn.Module, kind: CallKind) -> None:
        """Pass it on."""
        del module
        if self._recorder is not None:
            self._recorder.root_ended(kind)

    def inner_begins(self) -> None:
        """Pass it on."""
        if self._recorder is not None:
            self._recorder.inner_begins()

    def loop_begins(self, called: list[nn.Module]) -> None:
        """Record another loop instead, unless the one before it was recorded to the end."""
        recorder = self._recorder
        if recorder is None:
            self._called = dict.fromkeys(called)
        elif not recorder.is_done and not recorder.report.is_recorded:
            recorder.abandon()
            self._before_count, self._loop_count = recorder.report.step_count, self._loop_count + 1
            self._recorder = None
            self._called = dict.fromkeys(called)
            if self._profilers is not None:
                self._profilers.attach()

    def optimizer_stepped(self, parameter: Any) -> None:
        """Take the first step of an optimizer for the end of a first step."""
        if self._recorder is None:
            # While one thread begins, which takes imports, the loops of others are no loop's.
            if self._beginning.acquire(blocking=False):
                try:
                    self._first_stepped(parameter)
                finally:
                    self._beginning.release()
        elif self._is_by_optimizer and self._watch is not None and self._watch.has_stepped:
            self.step_is_over(is_part=self._watch.step_began())

    def step_is_over(self, *, is_part: bool) -> None:
        """Go on to the next step."""
        recorder = self._recorder
        if recorder is None or self._watch is None:
            return
        self._watch.home.bind(self._thread_ended)
        self._watch.may_move = False
        self._error_before = _last_error()
        recorder.end_step()
        if is_part:
            recorder.join_steps()
        if self._watch.take_change():
            recorder.restart()
        recorder.begin_step()
        if recorder.is_done:
            self._stop()

    def leave_to_program(self) -> None:
        """Leave the program alone from now on, as it records its loop itself."""
        reason = "the program records its loop itself, by tracekit.collect"
        if self._recorder is None:
            with contextlib.suppress(OSError):
                (self._folder / UNRECORDED).write_text(reason, "utf-8")
        elif not self._recorder.is_done:
            self._recorder.failed(WorkloadError(reason))
        self._stop()

    def failed(self, error: Exception) -> None:
        """Leave the program alone from now on."""
        if self._recorder is not None:
            self._recorder.failed(error)
        else:
            self._unusable(f"{type(error).__name__}: {error}")
        self._stop()

    def _first_stepped(self, parameter: Any) -> None:
        if self._recorder is not None:
            return
        if self._called:
            self._begin(outermost(list(self._called)), 0)
            self._called.clear()
            self._is_by_optimizer &= current_place().world_size > 1
            if self._is_by_optimizer and self._watch is not None:
                self._watch.find_no_steps()
                self.step_is_over(is_part=self._watch.step_began())
        else:
            self._count_lone_step(parameter)

    def _count_lone_step(self, parameter: Any) -> None:
        """See a loop whose model is called where nothing sees it, as in a compiled function."""
        self._lone_step_count += 1
        if self._lone_step_count < 2 or parameter is None:
            return
        model = owner_of(parameter)
        if model is None or self._watch is None:
            return
        self._is_by_optimizer = True
        self._watch.find_no_steps()
        self._watch.step_began()
        self._begin([model], self._lone_step_count)
        if self._recorder is not None:
            how = "inside of a compiled function" if has_compiled() else "past nn.Module.__call__"
            self._recorder.report.notes.append(
                f"the model is called {how}: steps are those of the optimizer, and neither phases "
                "nor tokens are seen"
            )

    def _begin(self, trained: list[nn.Module], step_number: int) -> None:
        """Take the step that has just been seen for the first; `step_number` are over."""
        if not trained or self._watch is None or self._profilers is None:
            return
        # Others train from now on what is not looked at. Autograd's threads step for the loop's.
        if not is_backward():
            self._watch.home.bind(self._thread_ended)
            self._watch.may_move = True
        place = current_place()
        if not claim(self._folder, place.rank):
            self._stop()
            return
        # Not before there is something to record: it imports much.
        from .recorder import LoopRecorder

        owner, parts = owner_of_parts(trained)
        if owner is not None:
            inside = set(owner.modules())
            trained = [owner, *(module for module in trained if module not in inside)]
        self._recorder = LoopRecorder(
            self._plan,
            place,
            self._folder.parent,
            trained,
            self._watch,
            self._profilers,
            self._publish,
            parts=parts,
        )
        self._recorder.report.step_count = step_number
        if self._loop_count > 1:
            self._recorder.report.note(
                f"loop {self._loop_count} of this process is recorded: the one before it, of "
                f"another model or optimizer, ended after {self._before_count} steps"
            )
        self._recorder.begin_step()
        self._recorder.describe()
        self._publish()
        if self._loop_count == 1:
            at_exit(self._end)

    def _end(self) -> None:
        """Report a loop that ended before it was recorded to the end, or exactly there."""
        recorder = self._recorder
        if recorder is None or os.getpid() != self._pid:
            return
        is_late = recorder.is_done
        error = _last_error()
        if error is self._error_before:  # somebody dealt with it, and trained on
            error = None
        if error is not None:
            recorder.report.note_error(error)
        if not is_late:
            try:
                recorder.close(is_over=error is None)
            except Exception as problem:  # noqa: BLE001 - the program must not fail for us
                recorder.failed(problem)
        if not is_late or error is not None:
            self._stop()

    def _thread_ended(self) -> None:
        if self._recorder is not None and self._recorder.thread_ended():
            self._stop()

    def _stop(self) -> None:
        """Watch no more, and leave the last report."""
        if self._watch is not None:
            self._watch.stop()
        if self._profilers is not None:
            self._profilers.detach()
        recorder = self._recorder
        if recorder is None:
            return
        recorder.report.settle(self._plan)
        self._publish()

    def _publish(self) -> None:
        recorder = self._recorder
        if recorder is not None:
            # The other side may have gone, and the folder with it.
            with contextlib.suppress(OSError):
                recorder.report.write(self._folder)

    def _unusable(self, reason: str) -> None:
        self._tell_unusable(str(self._folder), reason)

    def _forked(self) -> None:
        """Leave the child of a fork alone, unless nothing had begun: then it may train itself."""
        if self._recorder is None:
            self._pid = os.getpid()
            # A thread that has held it is not here.
            self._beginning = threading.Lock()
            return
        backward_calls.forget_all()
        module_calls.forget_all()
        optimizer_steps.forget_all()
        self._recorder.leave()


def _is_given_activations(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Tell whether a model is called as a later stage of a pipeline is: it hands gradients back.

    Megatron gives activations to its model before the call, and says itself which stage it is.
    """
    state = sys.modules.get("megatron.core.parallel_state")
    if state is not None and state.model_parallel_is_initialized():
        return bool(state.get_pipeline_model_parallel_rank())
    return any(
        isinstance(given, torch.Tensor) and given.is_leaf and given.requires_grad
        for given in tree_leaves((args, dict(kwargs)))
    )


def at_exit(function: Any) -> None:
    """Have a function called when this process ends, whatever kind of process it is."""
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None:
        atexit.register(function)
        return
    import multiprocessing.util

    # A child of multiprocessing ends without atexit.
    multiprocessing.util.Finalize(None, function, exitpriority=0)


def _last_error() -> BaseException | None:
    """Return the exception that ended the program, or that an interactive part of it showed."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None
