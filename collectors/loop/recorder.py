"""Measures and profiles the steps of a training loop that someone else wrote, as one rank.

The steps go by in this order: some that do not count; some that are timed, with nothing added to
them; as many as are profiled with ranges alone, which tells what those cost; one that the profiler
needs to warm up; and the profiled ones. Then nothing of ours is left and the loop runs on as it
was, or until another window of profiled steps is due.

A loop that has a profiler of its own keeps it. Steps under it are not timed; they have ranges, and
the trace that the loop writes takes the place of ours.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from tracekit import __version__
from tracekit.errors import TracekitError

from ..machine import accelerator, memory
from ..process.distributed import Place
from ..process.job import job_id, local_rank_count
from ..profiler.profile import Profile
from ..profiler.step_clock import StepClock
from ..ranges import Phase
from .description import describe
from .plan import PROFILER_WARMUP_COUNT, LoopPlan
from .precision import autocast_type
from .profilers import LoopProfilers, keep_copy
from .ranges import LoopRanges
from .rank_choice import is_traced
from .report import LoopReport, Window
from .tokens import TokenCounter
from .watch import CallKind, LoopWatch
from .windows import Windows


class LoopRecorder:
    """Records the steps of a loop: `begin_step` and `end_step` around each, `close` at the end.

    Args:
        plan: what to do with which step.
        place: which rank this is.
        folder: takes the trace.
        models: the models that the loop calls, the one that is trained first.
        watch: sees the calls of the loop; what it sees is to be given to this.
        profilers: sees the loop's own profilers; it is attached, and detached by this at the end.
        publish: called when `report` has changed.
        optimizer: one that is no `torch.optim.Optimizer`, or None.

    `report` is filled in as figures become known.
    """

    def __init__(
        self,
        plan: LoopPlan,
        place: Place,
        folder: Path,
        models: Sequence[nn.Module],
        watch: LoopWatch,
        profilers: LoopProfilers,
        publish: Callable[[], None],
        optimizer: Any = None,
    ) -> None:
        self.plan = plan
        self.report = LoopReport(
            rank=place.rank,
            world_size=place.world_size,
            local_rank=place.local_rank,
            local_rank_count=local_rank_count(os.environ),
            job_id=job_id(),
            is_traced=is_traced(plan.ranks, place),
        )
        self.is_done = False
        self._place = place
        self._folder = folder
        self._watch = watch
        self._publish = publish
        self._model = models[0]
        self._device = accelerator.CPU
        self._ranges = LoopRanges(models, optimizer)
        self._tokens = TokenCounter()
        self._theirs = profilers
        self._theirs.observer = self
        self._windows = Windows(plan, place)
        self._evaluation_ns = 0
        self._evaluation_begin: int | None = None
        self._is_first_call = True
        self._clock: StepClock | None = None
        self._their_clock: StepClock | None = None
        self._profile: Profile | None = None
        self._profile_begin = 0
        self._is_under_theirs = False
        # Steps of the plan that are over: without those under the loop's own profiler.
        self._planned = 0
        measured = plan.warmup_count
        ranged = measured + plan.measured_count
        profiled = ranged + plan.profiled_count
        self._parts_begin = {
            measured: self._begin_measured,
            ranged: self._begin_ranged,
            profiled: self._begin_profiled,
            profiled + PROFILER_WARMUP_COUNT: self._begin_kept,
        }
        if profilers.is_active:
            self.their_profiler_starts()

    @property
    def is_ranged(self) -> bool:
        """Whether calls have ranges: neither before the timed steps are over nor at the end."""
        return self._ranges.is_attached

    def begin_step(self) -> None:
        """Begin a step."""
        if self.is_done or not self._begin_part():
            return
        if self._clock is not None:
            self._clock.resume()
        if self._theirs.is_active and self._their_clock is None:
            self._their_clock = StepClock(self._device)
        self._ranges.begin_step(self.report.step_count)

    def end_step(self) -> None:
        """End a step, and everything after the last one."""
        if self.is_done:
            return
        self._end_evaluation()
        self._ranges.end_step()
        if self._clock is not None:
            self._clock.tick()
        if self._profile is not None:
            self._profile.step()
        self.report.step_count += 1
        if self._is_under_theirs or self._theirs.is_active:
            if self._clock is not None:
                self._clock.drop()
            if self._their_clock is not None:
                self._their_clock.tick()
            self._tokens.drop_step()
            self._is_under_theirs = self._theirs.is_active
        else:
            self._tokens.keep_step()
            self._planned += 1
        if self._windows.is_open:
            if self._windows.step_ended():
                self._end_window()
        elif self._planned == self.plan.step_count and not self._windows.is_waiting:
            self._end_first()

    def join_steps(self) -> None:
        """Count the last two steps as one: they were halves of an iteration."""
        if self.report.step_count > 1 and 1 < self._planned <= self.plan.warmup_count + 1:
            self.report.step_count -= 1
            self._planned -= 1

    def cancel_step(self) -> None:
        """Take back that a step was begun: the loop is over."""
        self._ranges.close_step()

    def suspend(self) -> None:
        """Let what follows belong to no step: an evaluation begins."""
        if self._evaluation_begin is None:
            self._evaluation_begin = time.perf_counter_ns()
            self._ranges.close_step()
            if self._clock is not None:
                self._clock.pause()

    def root_begins(
        self, module: nn.Module, kind: CallKind, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """Take note of the call of a model, a teacher, a loss."""
        if self.is_done:
            return
        if kind == "evaluation":
            self.suspend()
        elif kind == "training":
            self._end_evaluation()
            if self._clock is not None:
                self._clock.resume()
            if module is self._model:
                self._note_training(args, kwargs)
        self._ranges.root_begins(module, self._phase_of(kind))

    def root_ended(self, kind: CallKind) -> None:
        """Take note of its end."""
        self._ranges.root_ended(self._phase_of(kind))

    def inner_begins(self) -> None:
        """Look once at what a module computes in, below the calls that set it up."""
        kind = autocast_type(self._device)
        if kind is not None:
            self.report.precision = kind
            self._watch.wants_inner = False

    def their_profiler_starts(self) -> None:
        """End ours, if it runs, and give the loop's profiler ranges to see."""
        if self._profile is not None:
            self._end_for_theirs()
        if self._lacks_trace():
            self._is_under_theirs = True
            if not self.is_done:
                self._attach()

    def _end_for_theirs(self) -> None:
        """End our profile: the loop's own comes first."""
        # Whoever starts it after the optimizer has stepped does so between two steps.
        is_between = self._watch.has_stepped and self._watch.finds_steps
        if is_between:
            self._watch.step_began()
            self.end_step()
        self._note(
            f"the loop started a profiler of its own in step {self.report.step_count}, which ended "
            "ours"
        )
        self._ranges.close_step()
        if self._windows.is_open:
            self._end_window()
        elif self._profile is not None:
            self._write_first()
            if not self._lacks_trace():
                self._end_first()
        if is_between:
            self.begin_step()

    def their_profiler_stopped(self) -> None:
        """Take the ranges away again, unless steps with ranges are going on."""
        ranged = self.plan.warmup_count + self.plan.measured_count
        is_ranged_part = 0 <= self._planned - ranged < self.plan.profiled_count
        if not is_ranged_part and not self._theirs.is_active:
            self._ranges.close_step()
            self._detach()

    def their_trace(self, path: Path) -> None:
        """Take the trace that the loop has written, if there is none yet."""
        if not self._lacks_trace():
            return
        self.report.trace = keep_copy(path, self._folder, f"rank{self._place.rank}")
        self._note(
            "the loop has a profiler of its own: the trace is what that wrote; ours did not run"
        )
        if self._planned >= self.plan.step_count:
            self._end_first()
        self._publish()

    def failed(self, error: Exception) -> None:
        """Give up: the loop goes on without us."""
        self._note(f"recording stopped in step {self.report.step_count}: {_sentence(error)}")
        with contextlib.suppress(Exception):
            self.abandon()
        self.report.is_final = True
        if self.report.outcome == "ok" and self.report.trace is None:
            self.report.outcome = "failed"
            self.report.reason = _sentence(error)
        self._publish()

    def close(self) -> None:
        """Take everything of ours away; write the trace if a profiled step is whole."""
        if self.is_done:
            return
        self._ranges.close_step()
        try:
            if 0 < self._planned - self.plan.warmup_count <= self.plan.measured_count:
                self._keep_measured()
            if self._windows.is_open:
                self._end_window()
            elif self._profile is not None:
                self._write_first()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Take everything of ours away and keep nothing; does nothing the second time."""
        if self.is_done:
            return
        self.is_done = True
        self._ranges.close_step()
        self._end_evaluation()
        if self._evaluation_ns:
            self._note_evaluation()
        if self._profile is not None:
            profile, self._profile = self._profile, None
            profile.abandon()
        self._theirs.detach()
        self._detach()
        if self._their_clock is not None and self.report.profiled_step_ns is None:
            self.report.profiled_count = self._their_clock.step_count
            self.report.profiled_step_ns = _mean_ns(self._their_clock)
        if self._theirs.was_seen and self._lacks_trace():
            self._note(
                "the loop has a profiler of its own, so ours did not run; it wrote no Chrome trace"
            )

    def leave(self) -> None:
        """Do nothing from now on, in the child of a fork: profiler and ranges are the parent's."""
        self.is_done = True
        self._profile = None
        self._theirs.detach()
        self._ranges.leave()

    def describe(self) -> None:
        """Note what runs here, as far as it is known before the first step is over."""
        describe(self._model, self.plan.name, self.report)

    def _begin_part(self) -> bool:
        """Begin what this step is the first of, if anything; tell whether there is more to do."""
        if self._windows.is_waiting:
            self._begin_window_if_due()
        elif not self._is_under_theirs:
            begin = self._parts_begin.get(self._planned)
            if begin is not None:
                begin()
        return not self.is_done

    def _note_training(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._tokens.count(args, kwargs)
        if self._is_first_call:
            self._is_first_call = False
            self._device = accelerator.device_of(self._model, (*args, *kwargs.values()))
            found = autocast_type(self._device)
            if found is not None:
                self.report.precision = found

    def _lacks_trace(self) -> bool:
        return self.report.is_traced and self.report.trace is None

    def _phase_of(self, kind: CallKind) -> Phase:
        is_evaluation = kind == "evaluation" or self._evaluation_begin is not None
        return "evaluation" if is_evaluation else "forward"

    def _attach(self) -> None:
        self._ranges.attach()
        self._watch.wants_inner = self.report.precision in (None, "fp32")

    def _detach(self) -> None:
        self._watch.wants_inner = False
        self._ranges.detach()

    def _end_evaluation(self) -> None:
        if self._evaluation_begin is not None:
            self._evaluation_ns += time.perf_counter_ns() - self._evaluation_begin
            self._evaluation_begin = None

    def _note_evaluation(self) -> None:
        self._note(
            "calls of the model without gradients or in evaluation mode between steps count as "
            "evaluation, and are in no step's time"
        )

    def _begin_measured(self) -> None:
        self._tokens.begin()
        self.describe()
        accelerator.synchronize(self._device)
        self._clock = StepClock(self._device)
        self._publish()

    def _begin_ranged(self) -> None:
        self._keep_measured()
        self._publish()
        self._attach()
        accelerator.synchronize(self._device)
        self._clock = StepClock(self._device)

    def _keep_measured(self) -> None:
        """Keep what the timed steps told, as many as there were."""
        if self._clock is not None:
            self.report.step_ns = self._clock.stop()
        self._clock = None
        self._tokens.end()
        self.report.token_count = self._tokens.total
        self.report.batch_size = self._tokens.batch_size
        self.report.sequence_length = self._tokens.sequence_length
        self.report.memory = memory.peak(self._device)

    def _begin_profiled(self) -> None:
        self.report.ranges_step_ns = _mean_ns(self._clock)
        self._note_accumulation()
        self._clock = None
        if not self.report.is_traced:
            self._end_first()
        elif self._theirs.was_seen:
            self._detach()
        else:
            self._profile = self._start_profile(self.plan.profiled_count, self._folder)

    def _begin_kept(self) -> None:
        if self._profile is not None:
            accelerator.synchronize(self._device)
            self._clock = StepClock(self._device)

    def _start_profile(self, step_count: int, folder: Path) -> Profile:
        profile = Profile(
            folder / f"rank{self._place.rank}.json.gz",
            self._metadata(),
            warmup=PROFILER_WARMUP_COUNT,
            active=step_count,
            record_shapes=self.plan.record_shapes,
            with_stack=self.plan.with_stack,
            with_flops=self.plan.with_flops,
            profile_memory=self.plan.profile_memory,
            all_threads=self.plan.all_threads,
        )
        profile.begin()
        self._profile_begin = self.report.step_count
        return profile

    def _end_first(self) -> None:
        """End the first window; what comes after it is another window or nothing."""
        if self._theirs.was_seen and self._profile is None and self._lacks_trace():
            # The loop's own may come at any time until the program ends.
            return
        if self._profile is not None:
            self._write_first()
        self._clock = None
        self._detach()
        self.report.is_recorded = True
        if self._windows.wait(self.report.step_count):
            self._publish()
        else:
            self.abandon()

    def _write_first(self) -> None:
        # The profiler has seen the first of these only to warm up.
        kept = self.report.step_count - self._profile_begin - PROFILER_WARMUP_COUNT
        profile, self._profile = self._profile, None
        if profile is None:
            return
        if kept <= 0:
            profile.abandon()
            return
        self.report.profiled_step_ns = _mean_ns(self._clock)
        self.report.profiled_count = kept
        self.report.trace = self._save(profile).name
        self.report.is_recorded = True
        if kept < self.plan.profiled_count:
            self._note(f"{kept} of {self.plan.profiled_count} steps were profiled")

    def _save(self, profile: Profile) -> Path:
        """End a profile and write it, while the loop waits; note for how long that was."""
        begin = time.perf_counter_ns()
        profile.end()
        path = profile.save()
        stall_ns = time.perf_counter_ns() - begin
        self.report.export_stall_ns = max(self.report.export_stall_ns or 0, stall_ns)
        return path

    def _begin_window_if_due(self) -> None:
        count = self._windows.begin_if_due(self.report.step_count)
        if count is None or self._theirs.is_active or not self.report.is_traced:
            return
        folder = self._folder / f"step-{self.report.step_count + PROFILER_WARMUP_COUNT}"
        folder.mkdir(exist_ok=True)
        self._attach()
        self._profile = self._start_profile(count, folder)

    def _end_window(self) -> None:
        profile, self._profile = self._profile, None
        kept = self.report.step_count - self._profile_begin - PROFILER_WARMUP_COUNT
        if profile is not None and kept > 0:
            path = self._save(profile)
            window = Window(
                self._profile_begin + PROFILER_WARMUP_COUNT,
                kept,
                f"{path.parent.name}/{path.name}",
            )
            self.report.windows.append(dataclasses.asdict(window))
        elif profile is not None:
            profile.abandon()
        self._detach()
        if self._windows.wait(self.report.step_count):
            self._publish()
        else:
            self.abandon()

    def _note_accumulation(self) -> None:
        counts = self._ranges.accumulated
        if not counts:
            return
        self.report.gradient_accumulation = round(statistics.median(counts))
        if min(counts) != max(counts):
            self._note(f"an optimizer steps after {min(counts)} to {max(counts)} backward passes")

    def _note(self, text: str) -> None:
        if text not in self.report.notes:
            self.report.notes.append(text)

    def _metadata(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "stage": self.plan.stage,
            "engine": self.report.engine,
            "model": self.report.model.get("name"),
            "batch_size": self.report.batch_size,
            "sequence_length": self.report.sequence_length,
            "precision": self.report.precision,
            "rank": self._place.rank,
            "world_size": self._place.world_size,
        }


def _mean_ns(clock: StepClock | None) -> int | None:
    """Return the mean time of the steps that a clock has seen, ns; None without any."""
    times = clock.stop() if clock is not None else []
    return round(statistics.fmean(times)) if times else None


def _sentence(error: Exception) -> str:
    if isinstance(error, TracekitError):
        return error.message
    return f"{type(error).__name__}: {error}".strip().split("\n", 1)[0][:300]
