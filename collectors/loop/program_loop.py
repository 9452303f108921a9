"""The training loop of a recorded program, observed from inside the process.

In later pipeline stages, the next step begins right after the optimizer step: the stage waits for
input, and so for everything that the first stage does between steps. Processes without an optimizer
step are not recorded.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from tracekit.errors import WorkloadError

from ..calls import module_calls, training_hooks
from ..calls.dynamo_bypass import IS_POSSIBLE, has_compiled
from ..process.job import current_place
from ..profiler.loop_profilers import LoopProfilers
from ..ranges import is_backward
from .hidden_modules import VisibleModules
from .plan import LoopPlan
from .rank_lock import UNRECORDED, RankClaim
from .trained_models import outermost, owner_of, owner_of_parts
from .watch import LoopWatch, Observer

if TYPE_CHECKING:
    from .recorder import LoopRecorder


def watch(folder: str, unusable: Callable[[str, str], None]) -> None:
    global _loop
    _loop = _Loop(Path(folder), LoopPlan.read(Path(folder)), unusable)
    _loop.watch()


def defer_to_program() -> None:
    """Stop recording: the program records its loop itself, and two profilers would crash it."""
    if _loop is not None:
        _loop.defer_to_program()


_loop: _Loop | None = None


class _Loop(Observer):
    def __init__(self, folder: Path, plan: LoopPlan, unusable: Callable[[str, str], None]) -> None:
        self._folder = folder
        self._report_unusable = unusable
        self._plan = plan
        # Weak references, because a program without torch optimizers may call and drop many models.
        self._called: WeakKeyDictionary[nn.Module, None] = WeakKeyDictionary()
        self._watch = LoopWatch(self)
        self._profilers = LoopProfilers()
        self._beginning = threading.Lock()
        self._lone_step_count = 0
        self._is_by_optimizer = False
        self._pid = os.getpid()
        self._error_before: BaseException | None = None
        # The recorded earlier loop, or else the longest earlier loop.
        self._earlier: LoopRecorder | None = None
        self._later: _LaterLoops | None = None
        # If a later loop is longer: the number of later loops, and its step count.
        self._outgrown: tuple[int, int] | None = None
        self._loop_count = 1
        self._before_count = 0
        self._first_step = 0
        self._claim: RankClaim | None = None
        # Plan with fewer steps, after a loop that was too short.
        self._fitted: LoopPlan | None = None
        self._recorder_count = 0

    def watch(self) -> None:
        if not IS_POSSIBLE:
            self._unusable("this torch version cannot hide tracekit's hooks from torch.compile")
            return
        os.register_at_fork(after_in_child=self._forked)
        self._profilers.attach()
        self._watch.start()

    def training_call_begins(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        if not self._called:
            self._is_by_optimizer = _is_given_activations(args, kwargs)
        self._called[module] = None

    def loop_begins(self, called: list[nn.Module], optimizer: Any) -> None:
        recorder = self.recorder
        if recorder is None:
            self._called = WeakKeyDictionary(dict.fromkeys(called))
        elif not recorder.is_done and recorder.is_past_profiled_steps:
            if recorder.end_loop():
                self._watch_for_longer()
                if self._later is not None:
                    self._later.after_optimizer_step(optimizer)
        elif not recorder.is_done and not recorder.report.is_recorded:
            recorder.give_up()
            if self._earlier is not None and self._earlier.report.is_recorded:
                self.recorder = self._earlier
                self._watch_for_longer(self._before_count, recorder.report.step_count)
                return
            self._before_count, self._loop_count = recorder.report.step_count, self._loop_count + 1
            self._fitted = self._plan.fitted(self._before_count)
            self._earlier, self.recorder = self._best, None
            self._called = WeakKeyDictionary(dict.fromkeys(called))
            self._profilers.attach()

    def loop_goes_on(self) -> None:
        """Treat the new loop as a part of the previous one, whose optimizers step in turn."""
        recorder = self.recorder
        if recorder is not None and not recorder.is_done and self._before_count:
            self._loop_count -= 1
            steps = f"the first {self._before_count} steps"
            recorder.report.note(f"{steps} are excluded: fewer optimizers stepped then")
            recorder.report.loop_number, recorder.report.before_count = self._loop_count, 0
            self._earlier, self._before_count = None, 0

    def optimizer_stepped(self, parameter: Any) -> None:
        """Treat the first optimizer step as the end of the first training step."""
        if self.recorder is None:
            # Starting a recording takes time for imports, during which loops of other threads are
            # ignored.
            if self._beginning.acquire(blocking=False):
                try:
                    self._first_stepped(parameter)
                finally:
                    self._beginning.release()
        else:
            self.recorder.optimizer_stepped()
            if self._is_by_optimizer and self._watch.steps.is_over:
                self.step_is_over(is_part=self._watch.steps.begin())

    def stepped_elsewhere(self) -> None:
        """Report no step time: threads take turns, and only the steps of one thread are visible."""
        if self.recorder is not None:
            self.recorder.report.is_in_turn = True

    def step_is_over(self, *, is_part: bool) -> None:
        recorder = self.recorder
        if recorder is None or self._later is not None:
            return
        self._watch.thread.bind(self._thread_ended)
        self._watch.may_move = False
        self._error_before = last_error()
        recorder.end_step()
        if is_part:
            recorder.join_steps()
        if self._watch.steps.take_change():
            recorder.restart()
        recorder.begin_step()
        if recorder.is_done:
            self._watch_for_longer()

    def defer_to_program(self) -> None:
        reason = "the program already records its loop with tracekit.collect"
        if self.recorder is None:
            with contextlib.suppress(OSError):
                (self._folder / UNRECORDED).write_text(reason, "utf-8")
        elif not self.recorder.is_done:
            self.recorder.failed(WorkloadError(reason))
        self._stop()

    def failed(self, error: Exception) -> None:
        if self.recorder is not None:
            self.recorder.failed(error)
        else:
            self._unusable(f"{type(error).__name__}: {error}")
        self._stop()

    def _first_stepped(self, parameter: Any) -> None:
        if self.recorder is not None:
            return
        data = sys.modules.get("torch.utils.data")
        if data is not None and data.get_worker_info() is not None:
            self._stop()  # In a DataLoader worker, the training loop is in another process.
            return
        if self._called:
            self._begin(outermost(list(self._called)), 0)
            self._called.clear()
            self._is_by_optimizer &= current_place().world_size > 1
            if self._is_by_optimizer:
                self._watch.bounds = "optimizer"
                self.step_is_over(is_part=self._watch.steps.begin())
        else:
            self._count_lone_step(parameter)

    def _count_lone_step(self, parameter: Any) -> None:
        self._lone_step_count += 1
        count = self._lone_step_count
        # Searching all objects is slow and may fail, so it is done only after 2, 4, 8, … steps.
        if count < 2 or count & (count - 1) or parameter is None:
            return
        model = owner_of(parameter)
        if model is None:
            return
        self._is_by_optimizer = True
        self._watch.bounds = "optimizer"
        self._watch.steps.begin()
        self._begin([model], self._lone_step_count)
        if self.recorder is not None:
            how = "inside a compiled function" if has_compiled() else "bypassing nn.Module.__call__"
            self.recorder.report.notes.append(
                f"the model is called {how}: steps are optimizer steps, and modules and tokens are "
                "unknown"
            )

    def _begin(self, trained: list[nn.Module], step_number: int) -> None:
        """Start recording at the detected step, after `step_number` earlier steps."""
        if not trained:
            return
        # Other threads are ignored from now on. If a hook on an autograd thread steps an optimizer,
        # the loop's thread is unknown.
        if not is_backward():
            self._watch.thread.bind(self._thread_ended)
            self._watch.may_move = True
        place = current_place()
        self._claim = self._claim or RankClaim(self._folder, place.rank)
        if not self._claim.take():
            self._stop(_LaterLoops((), 0, self._record_longer, self._is_other_idle))
            return
        # Imported late, because the recorder imports many modules.
        with VisibleModules():
            from .recorder import LoopRecorder
            from .report import COMPILED_OPTIMIZER_NOTE

        owner, parts = owner_of_parts(trained)
        if owner is not None:
            inside = set(owner.modules())
            trained = [owner, *(module for module in trained if module not in inside)]
        # Each recording has its own folder, because another one may be moving into the run folder.
        self._recorder_count += 1
        is_first = self._recorder_count == 1 and not self._first_step
        name = "" if is_first else f"loop{os.getpid()}-{self._recorder_count}"
        (self._folder.parent / name).mkdir(exist_ok=True)
        plan = self._fitted or self._plan
        self.recorder = LoopRecorder(
            plan,
            place,
            self._folder.parent / name,
            trained,
            self._watch,
            self._profilers,
            self._publish,
            parts=parts,
        )
        report = self.recorder.report
        report.step_count, self._first_step = self._first_step + step_number, 0
        report.loop_number, report.before_count = self._loop_count, self._before_count
        report.folder = name
        if self._watch.has_compiled_optimizer:
            report.note(COMPILED_OPTIMIZER_NOTE)
        if self._fitted is not None:
            report.note(
                f"fewer steps are recorded ({plan.measured_count} timed, {plan.profiled_count} "
                f"profiled), because the previous loop had only {self._before_count}"
            )
        self.recorder.begin_step()
        if self._recorder_count == 1:
            at_exit(self._end)

    def _end(self) -> None:
        recorder = self.recorder
        if os.getpid() != self._pid:
            return
        error = last_error()
        if error is self._error_before:  # handled by the program, which continued to train
            error = None
        if recorder is not None and not recorder.is_done:
            try:
                recorder.close(is_over=error is None)
            except Exception as problem:  # noqa: BLE001 - errors must not reach the program
                recorder.failed(problem)
        best = self._best
        if best is not None and error is not None:
            best.report.note_error(error)
        self._stop()

    def _thread_ended(self) -> None:
        if self.recorder is not None and self.recorder.thread_ended():
            self._stop()

    def _stop(self, later: _LaterLoops | None = None) -> None:
        # Add this listener before removing the other one, so that torch's global hooks stay
        # registered.
        if later is not None:
            training_hooks.listen(later, backward=False)
        self._watch.stop()
        self._profilers.detach()
        before, self._later = self._later, later
        if before is not None:
            training_hooks.unlisten(before)
        best = self._best
        if best is None:
            return
        report = best.report
        if before is not None:
            report.later_count, report.longest_later = before.loop_count, before.longest
        elif best is self._earlier and self._outgrown is not None:
            # The later loop ended before it could replace this one.
            now = 0 if self.recorder is None else self.recorder.report.step_count
            report.later_count = self._outgrown[0]
            report.longest_later = max(self._outgrown[1], now)
        report.finalize(self._plan, self._loop_count)
        self._publish()

    def _watch_for_longer(self, length: int = 0, longest: int = 0) -> None:
        """Stop observing, but watch for a longer loop, because the recorded one may be a trial.

        If the recorded loop is over, it had `length` steps, and the next loop had `longest` so far.
        """
        if self.recorder is None:
            return
        report = self.recorder.report
        later = _LaterLoops(
            self._watch.optimizers, length or report.step_count, self._record_longer
        )
        later.loop_count, later.longest = int(longest > 0), longest
        if self._fitted is not None:
            later.own_limit = self._before_count - report.step_count
        self._stop(later if report.is_recorded and report.outcome == "ok" else None)

    def _is_other_idle(self, step_count: int) -> bool:
        """Take over the rank from an idle process; check only after 1, 2, 4, 8, … steps."""
        is_due = not step_count & (step_count - 1)
        return is_due and self._claim is not None and self._claim.take()

    def _record_longer(self, loop_count: int, before_count: int, step_count: int) -> None:
        if self._later is None:
            return
        later, self._later = self._later, None
        self._outgrown = max(1, loop_count), step_count
        if loop_count and before_count:
            self._loop_count, self._before_count = self._loop_count + loop_count, before_count
        self._fitted = None
        self._earlier, self._first_step = self._best, step_count
        self._watch_anew()
        training_hooks.unlisten(later)

    def _watch_anew(self) -> None:
        self.recorder = None
        self._is_by_optimizer, self._lone_step_count = False, 0
        self._called.clear()
        self._watch, self._profilers = LoopWatch(self), LoopProfilers()
        self._profilers.attach()
        self._watch.start()

    @property
    def _best(self) -> LoopRecorder | None:
        """The loop to report: the latest recorded one, or else the longest."""
        now, best = self.recorder, self._earlier
        if now is None or best is None:
            return now or best
        is_longer = now.report.step_count >= best.report.step_count
        is_better = now.report.is_recorded or (is_longer and not best.report.is_recorded)
        return now if is_better else best

    def _publish(self) -> None:
        best = self._best
        if best is None:
            return
        if self._claim is not None and not self._claim.is_held:
            # This process was idle, and another one has taken over the rank.
            best.abandon()
            return
        # The parent may have exited and removed the folder.
        with contextlib.suppress(OSError):
            best.report.write(self._folder)

    def _unusable(self, reason: str) -> None:
        self._report_unusable(str(self._folder), reason)

    def _forked(self) -> None:
        """Let a forked child record its own loop, unless its parent has profiled or finished."""
        recorder = self.recorder
        # A thread of the parent, which does not exist in the child, may hold the lock.
        self._beginning = threading.Lock()
        if recorder is None:
            self._pid = os.getpid()
            return
        is_over = recorder.is_done or recorder.has_profiled
        module_calls.forget_all()
        training_hooks.forget_all()
        recorder.leave()
        if is_over:
            self._later = _LaterLoops((), 0, self._record_longer, self._reject)
            training_hooks.listen(self._later, backward=False)
        else:
            self._pid, self._earlier, self._recorder_count = os.getpid(), None, 0
            self._watch_anew()

    def _reject(self, step_count: int) -> bool:
        if step_count == 1 and self._claim is not None:
            self._claim.reject()
        return False


class _LaterLoops(training_hooks.Listener):
    """Counts optimizer steps after the recorded loop, which may have been a trial.

    A later loop that becomes longer is recorded instead. If an optimizer of the recorded loop steps
    again, the other loops so far are parts of that loop. All ranks of a job take the same steps, so
    they select the same loop. In a process that is not recorded, all loops are later ones.

    `record` is called once if `may_record` accepts the step count of the longer loop. It gets the
    number of later loops, and the step counts of the recorded and the longer loop. After more than
    `own_limit` further steps, the recorded loop itself is recorded again.
    """

    own_limit: int | None = None

    def __init__(
        self,
        own: Iterable[weakref.ref[Any]],
        step_count: int,
        record: Callable[[int, int, int], None],
        may_record: Callable[[int], bool] = bool,
    ) -> None:
        self._own = dict.fromkeys(own, 0)
        self._step_count = step_count
        self._record = record
        self._may_record = may_record
        self._counts: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self.loop_count = self.longest = 0

    def after_optimizer_step(self, optimizer: Any) -> None:
        one = weakref.ref(optimizer)
        if one in self._own:
            self._own[one] += 1
            self._counts.clear()
            self.loop_count = self.longest = 0
            if self.own_limit is not None and self._own[one] > self.own_limit:
                self._record(0, 0, self._step_count + self._own[one])
            return
        count = self._counts[optimizer] = self._counts.get(optimizer, 0) + 1
        self.loop_count += count == 1
        self.longest = max(self.longest, count)
        length = self._step_count + max(self._own.values(), default=0)
        if count > length and self._may_record(count):
            self._record(self.loop_count, length, count)


def _is_given_activations(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a model is called like a later pipeline stage, with activations."""
    state = sys.modules.get("megatron.core.parallel_state")
    if state is not None and state.model_parallel_is_initialized():
        return bool(state.get_pipeline_model_parallel_rank())
    return any(
        isinstance(given, torch.Tensor) and given.is_leaf and given.requires_grad
        for given in tree_leaves((args, dict(kwargs)))
    )


def at_exit(function: Any) -> None:
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None:
        atexit.register(function)
        return
    import multiprocessing.util

    # Processes started by multiprocessing exit without running atexit handlers.
    multiprocessing.util.Finalize(None, function, exitpriority=0)


def last_error() -> BaseException | None:
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None
