"""Measures and profiles the steps of a training loop on one rank.

Steps in order: warm-up steps; timed steps without ranges or profiler; steps with ranges only, to
measure their cost; one profiler warm-up step; and profiled steps. On accelerators, light steps
follow, with only device activity and runtime calls. Then come timed steps again, because host speed
varies. All instrumentation is then removed until the next recording window is due.

If the loop has its own profiler, tracekit's does not run. Steps under the loop's profiler get
ranges but are not part of the plan, and its trace is used.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..machine import accelerator
from ..process.distributed import Place
from ..profiler.loop_profilers import LoopProfilers, ProfilerListener, keep_copy
from ..ranges import Phase, use_nvtx
from ..run.manifest import sentence
from .description import autocast_type, describe
from .plan import PROFILER_WARMUP_COUNT, LoopPlan
from .ranges import LoopRanges
from .report import EVALUATION_NOTE, GRADLESS_NOTE, OWN_PROFILER_NOTE, LoopReport
from .times import LoopTimes, StepClock, median_ns, warm_ns
from .traces import LoopTraces
from .watch import CallKind, LoopWatch
from .windows import Windows


class LoopRecorder(ProfilerListener):
    """Records a loop: call `begin_step` and `end_step` around each step, and `close` at the end.

    The first of `models` is the trained one. `parts` are submodules that the loop calls instead of
    the complete model. `optimizer` is passed only if it is not a torch optimizer. `publish` is
    called after changes of `report`. Built-in workloads pass `report` and `device`, and mark phases
    with `phase`.
    """

    def __init__(
        self,
        plan: LoopPlan,
        place: Place,
        folder: Path,
        models: Sequence[nn.Module],
        watch: LoopWatch,
        profilers: LoopProfilers,
        publish: Callable[[], None] = lambda: None,
        optimizer: Any = None,
        parts: Sequence[nn.Module] = (),
        *,
        report: LoopReport | None = None,
        device: torch.device = accelerator.CPU,
    ) -> None:
        self.plan = plan
        self._is_self_described = report is not None
        self.report = report or LoopReport.of(place, plan)
        self.is_done = False
        self._place, self._folder = place, folder
        self._watch = watch
        self._publish = publish
        # Weak references, because the program may drop its model while tracekit waits for later
        # windows.
        self._trained = [weakref.ref(one) for one in (models[0], *parts)]
        if plan.has_nvtx:
            use_nvtx()
        self._ranges = LoopRanges(
            models, optimizer, watch.thread, has_backward_ranges=plan.has_backward_ranges
        )
        self._times = LoopTimes(self.report, device)
        self._user_profilers = profilers
        self._user_profilers.listener = self
        self._windows = Windows(plan, place)
        self._is_first_call = True
        self._traces = LoopTraces(plan, place, self.report)
        self._is_under_user_profiler = False
        self._has_begun = self._has_trained = False
        self._optimized_ns = 0
        # Number of completed steps of the plan, which exclude those under the loop's own profiler.
        self._completed_count = 0
        measured = plan.warmup_count
        ranged = measured + plan.measured_count
        profiled = ranged + plan.profiled_count
        self._parts_begin = {
            measured: self._begin_measured,
            ranged: self._begin_ranged,
            profiled: self._begin_profiled,
            profiled + PROFILER_WARMUP_COUNT: self._begin_recorded,
        }
        # Whether timed steps after the profiled ones are in progress, and the step count at the end
        # of the profiled ones.
        self._is_after = False
        self._profiled_end = 0
        # Whether light steps are in progress, and the plan's step count at their end.
        self._is_light = False
        self._light_end = plan.step_count
        # False if an error has left a profiler running.
        self._is_profiler_stopped = True
        # Methods of an engine and non-torch optimizers are observed only while ranges are on.
        is_engine = hasattr(models[0], "backward") and hasattr(models[0], "step")
        self._sees_phases = not is_engine and optimizer is None
        if profilers.is_active:
            self.on_user_profiler_start()

    @property
    def has_profiled(self) -> bool:
        return self._traces.has_begun or self._user_profilers.was_seen

    @property
    def is_past_profiled_steps(self) -> bool:
        """Whether only light steps or the timed steps after the profiled ones remain."""
        return self._is_light or self._is_after

    @property
    def light_count(self) -> int:
        is_wanted = self.plan.has_light_steps and accelerator.device_activities(self._times.device)
        return PROFILER_WARMUP_COUNT + self.plan.profiled_count if is_wanted else 0

    def phase(self, name: Phase) -> contextlib.AbstractContextManager[None]:
        return self._ranges.phase(name) if self._ranges.is_attached else self._timed(name)

    @contextlib.contextmanager
    def _timed(self, name: Phase) -> Iterator[None]:
        clock = self._times.clock
        clock.begin_phase(name)
        try:
            yield
        finally:
            clock.end_phase(name)

    def pause(self) -> None:
        self._times.clock.pause()
        self._times.clock.forget_parts()

    def begin_step(self, number: int | None = None) -> None:
        is_first, self._has_begun = not self._has_begun, True
        if is_first:
            self._describe()
            self._publish()
        if not self.is_done and self._begin_part():
            self._has_trained = False
            self._times.begin_step(is_under_user_profiler=self._user_profilers.is_active)
            self._ranges.begin_step(self.report.step_count if number is None else number)

    def optimizer_stepped(self) -> None:
        self._optimized_ns = time.perf_counter_ns()
        self._times.clock.note_optimized()

    def end_step(self, *, is_last: bool = False) -> None:
        """Process the end of a step; the last one (`is_last`) ended at its `Optimizer.step`."""
        if self.is_done:
            return
        began_ns, file_count = time.perf_counter_ns(), self._traces.file_count
        self._times.is_evaluating = False
        is_last |= self._completed_count + 1 == self.plan.loop_length
        if is_last:
            self._ranges.mark_end(
                self.report.step_count, time.perf_counter_ns() - self._optimized_ns
            )
        self._ranges.end_step()
        self._times.clock.tick(self._watch.steps.last_kind)
        if is_last:
            self._times.clock.cut_last()
        try:
            self._traces.step()
        except Exception as error:
            if not self._traces.is_light:
                raise
            self._drop_light(sentence(error))
        self.report.step_count += 1
        if self._is_under_user_profiler or self._user_profilers.is_active:
            self._times.drop_step()
            self._is_under_user_profiler = self._user_profilers.is_active
        else:
            self._times.tokens.keep_step()
            self._completed_count += 1
        if self._windows.is_open:
            if self._windows.step_ended():
                self._end_window()
        elif not self._windows.is_waiting:
            if self._completed_count == self.plan.step_count and not self._profiled_end:
                self._end_profiled()
            if self._completed_count == self._light_end:
                self._end_light()
            if self._completed_count == self._light_end + self.plan.after_count:
                self._end_window()
        if self._traces.file_count > file_count:
            self._traces.note_stall(time.perf_counter_ns() - began_ns)
            self._publish()

    def join_steps(self) -> None:
        """Merge the last two steps into one, because they were parts of an iteration."""
        if self.report.step_count > 1 and 1 < self._completed_count <= self.plan.warmup_count + 1:
            self.report.step_count -= 1
            self._completed_count -= 1

    def restart(self) -> None:
        """Start over, because the previous steps were only parts of steps."""
        is_early = self._completed_count <= self.plan.warmup_count
        if self.is_done or is_early or self.report.is_recorded or self.report.trace is not None:
            return
        count = self.report.step_count
        self.report.note(f"steps before step {count} are excluded: fewer optimizers stepped then")
        self._ranges.close_step()
        self._traces.abandon()
        self._detach()
        self._ranges.accumulated.clear()
        self._times.restart()
        self._completed_count = 0

    def skip_first(self) -> None:
        self.report.step_count = 1
        self._completed_count = min(1, self.plan.warmup_count)

    def cancel_step(self) -> None:
        self._ranges.close_step()

    def root_begins(
        self, module: nn.Module, kind: CallKind, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        if self.is_done or not self._has_begun:
            return
        if kind == "evaluation":
            # Work from here on belongs to no step.
            if not self._times.is_evaluating:
                self._ranges.close_step()
                self._times.begin_evaluation()
                if self._completed_count >= self.plan.warmup_count:
                    self.report.note(EVALUATION_NOTE)
        elif kind in ("training", "gradless", "generation"):
            if self._times.is_evaluating and self._watch.bounds != "detected":
                # With pipeline parallelism, a later stage has already begun its step; it waited
                # while an earlier stage evaluated.
                is_anew = self._watch.bounds == "optimizer" and not self._has_trained
                self._ranges.resume_step(self.report.step_count, is_anew=is_anew)
                if is_anew:
                    self._times.clock.forget_parts()
            self._has_trained = True
            self._times.is_evaluating = False
            self._times.clock.resume()
            if kind == "training":
                self._note_training(module, args, kwargs)
            elif kind == "gradless" and self._completed_count >= self.plan.warmup_count:
                self.report.note(GRADLESS_NOTE)
        phase = self._phase_of(kind)
        self.phase_begins(phase)
        self._ranges.root_begins(module, phase)

    def root_ended(self, kind: CallKind) -> None:
        if self._has_begun:
            phase = self._phase_of(kind)
            self.phase_ended(phase)
            self._ranges.root_ended(phase)

    def phase_begins(self, phase: Phase) -> None:
        if self._sees_phases and not self._ranges.is_attached:
            self._times.clock.begin_phase(phase)

    def phase_ended(self, phase: Phase) -> None:
        if self._sees_phases and not self._ranges.is_attached:
            self._times.clock.end_phase(phase)

    def inner_begins(self) -> None:
        kind = autocast_type(self._times.device)
        if kind is not None:
            self.report.precision, self._watch.wants_inner = kind, False

    def on_user_profiler_start(self) -> None:
        if self._traces.is_light:
            self._drop_light("the loop started its own profiler")
        elif self._traces.is_open:
            self._end_for_user_profiler()
        if self._lacks_trace():
            self._is_under_user_profiler = True
            if not self.is_done:
                self._attach()

    def _end_for_user_profiler(self) -> None:
        # If the optimizer has stepped, the profiler starts between two steps.
        is_between = self._watch.steps.is_over and self._watch.bounds == "detected"
        if is_between:
            self._watch.steps.begin()
            self.end_step()
        self.report.note(
            f"the loop started its own profiler in step {self.report.step_count}, which "
            "stopped tracekit's"
        )
        self._ranges.close_step()
        self._write_trace()
        if not self._lacks_trace():
            self._end_window()
        if is_between:
            self.begin_step()

    def on_user_profiler_stop(self) -> None:
        ranged = self.plan.warmup_count + self.plan.measured_count
        is_ranged_part = 0 <= self._completed_count - ranged < self.plan.profiled_count
        if not is_ranged_part and not self._user_profilers.is_active:
            self._ranges.close_step()
            self._detach()

    def on_user_trace(self, path: Path) -> None:
        if not self._lacks_trace():
            return
        self.report.trace = keep_copy(path, self._folder, f"rank{self._place.rank}")
        self.report.note(
            "the loop has its own profiler: its trace is used, and tracekit's profiler did not run"
        )
        if self._completed_count >= self.plan.step_count:
            self._end_window()
        self._publish()

    def failed(self, error: Exception) -> None:
        self.report.note(f"recording stopped in step {self.report.step_count}: {sentence(error)}")
        with contextlib.suppress(Exception):
            self.abandon()
        self.report.is_final = True
        if self.report.outcome == "ok" and self.report.trace is None:
            self.report.outcome = "failed"
            self.report.reason = sentence(error)
        self._publish()

    def close(self, *, is_over: bool = False) -> None:
        """Write all results, and detach; if `is_over`, the last step is complete."""
        if self.is_done:
            return
        if self._watch.thread.is_elsewhere:
            self.report.note("recording stopped while the loop's thread was still running")
            self.leave(is_ended=True)
            return
        if is_over and self._watch.steps.is_over:
            self.end_step(is_last=True)
        self._ranges.close_step()
        try:
            self._keep_timed()
            self._end_light()
            self._keep_after()
            self._write_trace()
        finally:
            self.abandon()

    def give_up(self) -> None:
        """Keep only step times, because another loop has begun before the profiled steps ended."""
        self._times.clock.cut_last()
        self._keep_timed()
        ranged = self.plan.warmup_count + self.plan.measured_count
        if self._completed_count == ranged:
            self._times.keep_again()
        elif self._completed_count == ranged + self.plan.profiled_count:
            self.report.ranges_step_ns = warm_ns(self._times.end_again())
        self.abandon()

    def end_loop(self) -> bool:
        """Write all results, because another loop has begun after the profiled steps.

        Return whether the recording is done (no later window is due).
        """
        self._times.clock.cut_last()
        self._end_window()
        return self.is_done

    def thread_ended(self) -> bool:
        """End the recording because the loop's thread ends; return whether it was in progress."""
        is_recording = self._ranges.is_attached or self._traces.is_open or self._is_after
        if self.is_done or not is_recording:
            return False
        self.report.note("the loop's thread ended; other threads are not recorded")
        self.close(is_over=self._watch.bounds == "detected")
        return True

    def abandon(self) -> None:
        """Detach, and drop an unwritten profile."""
        if self.is_done:
            return
        self.is_done = True
        self._ranges.close_step()
        self._times.is_evaluating = False
        self._traces.abandon()
        self._user_profilers.detach()
        self._detach()
        self._ranges.forget()
        self._times.keep_user_profiled()
        if self._user_profilers.was_seen and self._lacks_trace():
            self.report.note(OWN_PROFILER_NOTE)

    def leave(self, *, is_ended: bool = False) -> None:
        """Stop without cleanup, because a fork's parent or another thread owns the state."""
        self.is_done = True
        self._traces.leave(is_ended=is_ended)
        self._user_profilers.detach()
        self._ranges.leave()

    def _describe(self) -> None:
        model = self._trained[0]()
        if model is not None and not self._is_self_described:
            describe(model, self.plan.name, self.report)

    def _begin_part(self) -> bool:
        """Begin the part of the plan that starts at this step; return whether recording goes on."""
        if self._windows.is_waiting:
            self._begin_window_if_due()
        elif not self._is_under_user_profiler:
            begin = self._parts_begin.get(self._completed_count)
            if begin is not None:
                begin()
        return not self.is_done

    def _note_training(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if not any(module is one() for one in self._trained):
            return
        self._times.tokens.count(module, args, kwargs)
        if self._is_first_call:
            self._is_first_call = False
            self._times.device = accelerator.device_of(module, (*args, *kwargs.values()))
            self.report.precision = autocast_type(self._times.device) or self.report.precision

    def _lacks_trace(self) -> bool:
        return self.report.is_traced and self.report.trace is None

    def _phase_of(self, kind: CallKind) -> Phase:
        if kind == "generation":
            return "generation"
        is_evaluation = kind in ("evaluation", "teacher") or self._times.is_evaluating
        return "evaluation" if is_evaluation else "forward"

    def _attach(self) -> None:
        self._ranges.attach()
        self._watch.wants_inner = self.report.precision in (None, "fp32")

    def _detach(self) -> None:
        self._watch.wants_inner = False
        self._ranges.detach()

    def _begin_measured(self) -> None:
        self._times.tokens.begin()
        self._describe()
        self._times.begin()
        self._publish()

    def _begin_ranged(self) -> None:
        self._times.keep_measured()
        self._attach()
        self._times.begin()
        self._publish()

    def _begin_profiled(self) -> None:
        self.report.ranges_step_ns = warm_ns(self._times.end())
        self.report.note_accumulation(self._ranges.accumulated)
        if not self.report.is_traced or self._user_profilers.was_seen:
            self._detach()
        else:
            self._traces.begin(self.plan.profiled_count, self._folder)

    def _begin_recorded(self) -> None:
        if self._traces.is_open:
            self._times.begin()

    def _end_profiled(self) -> None:
        if self._user_profilers.was_seen and self._lacks_trace():
            return
        self._write_trace()
        self._times.clock = StepClock()
        self._detach()
        self.report.is_recorded = True
        self._profiled_end = self.report.step_count
        light_count = self.light_count
        self._light_end += light_count
        self._is_light, self._is_after = light_count > 0, not light_count
        if light_count:
            self._parts_begin[self.plan.step_count] = self._begin_light
            self._parts_begin[self.plan.step_count + PROFILER_WARMUP_COUNT] = self._begin_recorded
        self._parts_begin[self._light_end] = self._begin_after
        self._publish()

    def _begin_light(self) -> None:
        if self._traces.is_open or self._user_profilers.was_seen or self.report.trace is None:
            return
        activities = accelerator.device_activities(self._times.device)
        try:
            self._traces.begin_light(self.plan.profiled_count, self._folder, activities)
        except Exception as error:  # noqa: BLE001
            self._drop_light(sentence(error))

    def _end_light(self) -> None:
        if not self._is_light:
            return
        self._is_light, self._is_after = False, True
        if self._traces.is_light:
            try:
                step_ns = self._times.end() if self._traces.recorded_count else []
                self._traces.end_light(median_ns(step_ns))
            except Exception as error:  # noqa: BLE001
                self._drop_light(sentence(error))
        self._times.clock = StepClock()
        self._publish()

    def _drop_light(self, reason: str) -> None:
        self._is_profiler_stopped = self._traces.drop_light()
        self.report.note(f"no light trace: {reason}")

    def _begin_after(self) -> None:
        if self._is_after and self._is_profiler_stopped and not self._times.clock.step_count:
            self._times.tokens.resume()
            self._times.begin()

    def _keep_after(self) -> None:
        if self._is_after:
            self._is_after = False
            count = len(self.report.step_ns)
            self._times.keep_measured()
            self.report.after_count = len(self.report.step_ns) - count

    def _end_window(self) -> None:
        if self._user_profilers.was_seen and not self._traces.is_open and self._lacks_trace():
            # The loop's own profiler may write its trace at any time until the program ends.
            return
        end = self._profiled_end if self.is_past_profiled_steps else self.report.step_count
        self._end_light()
        self._keep_after()
        self._write_trace()
        self._times.clock = StepClock()
        self.report.is_recorded = self.report.is_complete = True
        self._detach()
        if self._windows.wait(end):
            self._publish()
        else:
            self.abandon()

    def _write_trace(self) -> None:
        if self._traces.is_open:
            step_ns = self._times.end() if self._traces.recorded_count else []
            self._traces.end(median_ns(step_ns))

    def _begin_window_if_due(self) -> None:
        count = self._windows.begin_if_due(self.report.step_count)
        if count is None or self._user_profilers.is_active or not self.report.is_traced:
            return
        folder = self._folder / f"step-{self.report.step_count + PROFILER_WARMUP_COUNT}"
        folder.mkdir(exist_ok=True)
        self._attach()
        self._traces.begin(count, folder)

    def _keep_timed(self) -> None:
        count = self._completed_count - self.plan.warmup_count
        if 0 < count <= self.plan.measured_count and not self.report.step_ns:
            self._times.keep_measured()
