"""What the steps of a loop take, and how many tokens they are given."""

from __future__ import annotations

import statistics

import torch

from ..machine import accelerator, memory
from ..profiler.step_clock import StepClock
from .report import LoopReport
from .tokens import TokenCounter


class LoopTimes:
    """The clocks of a loop: of the part that is timed, and of steps under the loop's own profiler.

    `clock` is that of the part. What is called for evaluation between two steps (`is_evaluating`)
    is in no step's time.
    """

    def __init__(self, report: LoopReport, device: torch.device) -> None:
        self.device = device
        self.tokens = TokenCounter()
        self.is_evaluating = False
        self._report = report
        self.clock = self._ended = StepClock()
        self._their_clock: StepClock | None = None

    def begin(self) -> None:
        """Time the steps of another part of the plan from now on."""
        accelerator.synchronize(self.device)
        self.clock = StepClock(self.device)

    def end(self) -> list[int]:
        """Return the times of the part's steps, ns, and time no more."""
        self._ended, self.clock = self.clock, StepClock()
        return self._ended.stop()

    def end_again(self) -> list[int]:
        """Return the times of the part that has ended, the last step of which was a loop's last."""
        self._ended.cut_last()
        return self._ended.stop()

    def restart(self) -> None:
        """Forget what was timed so far; the parts of the plan begin anew."""
        self.clock = StepClock()
        self.tokens.end()
        report = self._report
        report.step_ns, report.token_count, report.ranges_step_ns = [], 0, None
        report.gradient_accumulation = None

    def begin_step(self, *, is_under_theirs: bool) -> None:
        """Begin a step, under the loop's own profiler or not."""
        self.clock.resume()
        if is_under_theirs and self._their_clock is None:
            self._their_clock = StepClock(self.device)

    def drop_step(self) -> None:
        """Let the step that has ended count for nothing but the loop's own profiler."""
        self.clock.drop()
        if self._their_clock is not None:
            self._their_clock.tick()
        self.tokens.drop_step()

    def begin_evaluation(self) -> None:
        self.is_evaluating = True
        self.clock.pause()

    def keep_measured(self) -> None:
        report = self._report
        report.step_ns = self.end()
        self.tokens.end()
        report.token_count = self.tokens.total
        report.batch_size = self.tokens.batch_size
        report.sequence_length = self.tokens.sequence_length
        report.is_without_ids = self.tokens.is_without_ids
        if self.tokens.ranges is not None:
            report.note(f"the model is given {self.tokens.ranges}")
        report.memory = memory.peak(self.device)

    def keep_theirs(self) -> None:
        """Report what steps took under the loop's own profiler, unless ours has told."""
        if self._their_clock is not None and self._report.profiled_step_ns is None:
            self._report.profiled_count = self._their_clock.step_count
            self._report.profiled_step_ns = mean_ns(self._their_clock.stop())


def mean_ns(step_ns: list[int]) -> int | None:
    return round(statistics.fmean(step_ns)) if step_ns else None
