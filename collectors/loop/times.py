"""Measures step times of a loop without synchronizing the device."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Hashable
from typing import Any

import torch

from tracekit.units import format_duration

from ..machine import accelerator, memory
from .report import APART_NOTE, IN_TURN_NOTE, MIXED_NOTE, LoopReport
from .tokens import TokenCounter

_NS_PER_EVENT_MS = 1_000_000
_APART = 1.2
"""Maximum ratio of the medians of two blocks of steps whose times are combined."""
_USUAL_SHARE = 2 / 3
"""Minimum share of the most common kind of steps for reporting a step time."""
_MAX_PARTS = 64
"""Maximum number of phase parts per step, because each needs two device events."""


class StepClock:
    """Measures each step until the end of its device work, with events on a GPU.

    `tick` ends a step and begins the next. The time between `pause` and `resume` is excluded.
    Without a device, nothing is measured. Phase times exclude nested phases, and are dropped in
    steps with too many phase parts.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self._device = device
        self._steps: list[list[tuple[Any, Any]]] = []
        self.kinds: list[Hashable] = []
        self._parts: list[tuple[Any, Any]] = []
        # Phase parts of each completed step, and of the current step.
        self._phases: list[list[tuple[str, Any, Any]]] = []
        self._phase_parts: list[tuple[str, Any, Any]] = []
        self._open_phases: list[str] = []
        self._phase_begin: Any = None
        self._begin: Any = None
        # Time of the last optimizer step in the current step, and in the last completed step.
        self._optimized: Any = None
        self._last_optimized: Any = None
        self.resume()

    @property
    def step_count(self) -> int:
        return len(self._steps)

    def tick(self, kind: Hashable = None) -> None:
        if self._device is None:
            return
        mark = None
        if self._begin is not None:
            mark = self._mark()
            self._parts.append((self._begin, mark))
        self._steps.append(self._parts)
        self.kinds.append(kind)
        self._phases.append(self._phase_parts)
        self._parts, self._phase_parts = [], []
        self._open_phases.clear()
        self._begin = mark
        self._optimized, self._last_optimized = None, self._optimized

    def note_optimized(self) -> None:
        if self._device is not None:
            self._optimized = self._mark()

    def cut_last(self) -> None:
        """End the last step at its optimizer step, because no other step followed."""
        if self._last_optimized is not None and self._steps and self._steps[-1]:
            begin, _ = self._steps[-1].pop()
            self._steps[-1].append((begin, self._last_optimized))
            self._last_optimized = None

    def pause(self) -> None:
        if self._begin is not None:
            self._parts.append((self._begin, self._mark()))
            self._begin = None
            self._open_phases.clear()

    def resume(self) -> None:
        if self._begin is None and self._device is not None:
            self._begin = self._mark()

    def forget_parts(self) -> None:
        self._parts.clear()
        self._phase_parts.clear()

    def drop(self) -> None:
        if self._steps:
            self._steps.pop()
            self.kinds.pop()
            self._phases.pop()

    def begin_phase(self, name: str) -> None:
        if self._begin is not None and len(self._phase_parts) < _MAX_PARTS:
            self._end_part()
            self._open_phases.append(name)

    def end_phase(self, name: str) -> None:
        if self._open_phases and self._open_phases[-1] == name:
            self._end_part()
            self._open_phases.pop()

    def _end_part(self) -> None:
        mark = self._mark()
        if self._open_phases:
            self._phase_parts.append((self._open_phases[-1], self._phase_begin, mark))
        self._phase_begin = mark

    def stop(self) -> list[int]:
        """Wait for the device; return step times, ns."""
        if self._device is not None:
            accelerator.synchronize(self._device)
        return [sum(_between_ns(*part) for part in parts) for parts in self._steps]

    def phases(self) -> list[dict[str, int]]:
        """Return the time of each phase of each step, ns; the clock must be stopped."""
        results = []
        for parts in self._phases:
            times: dict[str, int] = {}
            for name, begin, end in parts if len(parts) < _MAX_PARTS else ():
                times[name] = times.get(name, 0) + _between_ns(begin, end)
            results.append(times)
        return results

    def _mark(self) -> Any:
        return (self._device and accelerator.event(self._device)) or time.perf_counter_ns()


def _between_ns(begin: Any, end: Any) -> int:
    if isinstance(begin, int):
        return max(0, end - begin)  # Negative if the program has replaced the clock.
    return max(0, round(begin.elapsed_time(end) * _NS_PER_EVENT_MS))


class LoopTimes:
    """Clocks for the current part of the plan, and for steps under the loop's own profiler."""

    def __init__(self, report: LoopReport, device: torch.device) -> None:
        self.device = device
        self.tokens = TokenCounter()
        self.is_evaluating = False
        self._report = report
        self.clock = self._ended = StepClock()
        self._user_profiler_clock: StepClock | None = None
        # Time, phases, and kind of each step, per block of timed steps.
        self._blocks: list[list[tuple[int, dict[str, int], Hashable]]] = []

    def begin(self) -> None:
        accelerator.synchronize(self.device)
        self.clock = StepClock(self.device)

    def end(self) -> list[int]:
        self._ended, self.clock = self.clock, StepClock()
        return self._ended.stop()

    def end_again(self) -> list[int]:
        self._ended.cut_last()
        return self._ended.stop()

    def restart(self) -> None:
        self.clock = StepClock()
        self.tokens.end()
        report = self._report
        report.step_ns, report.token_count, report.ranges_step_ns = [], 0, None
        report.memory, report.plain_phase_ns = {}, {}
        report.plain_ns = None
        self._blocks.clear()
        report.gradient_accumulation = None

    def begin_step(self, *, is_under_user_profiler: bool) -> None:
        self.clock.resume()
        if is_under_user_profiler and self._user_profiler_clock is None:
            self._user_profiler_clock = StepClock(self.device)

    def drop_step(self) -> None:
        self.clock.drop()
        if self._user_profiler_clock is not None:
            self._user_profiler_clock.tick()
        self.tokens.drop_step()

    def begin_evaluation(self) -> None:
        self.is_evaluating = True
        self.clock.pause()

    def keep_measured(self) -> None:
        report = self._report
        self.end()
        self._keep_block()
        self.tokens.end()
        report.token_count = 0 if report.is_in_turn else self.tokens.total
        report.batch_size = self.tokens.batch_size
        report.sequence_length = self.tokens.sequence_length
        report.is_without_ids = self.tokens.is_without_ids
        if self.tokens.ranges is not None:
            report.note(f"the input of the model is {self.tokens.ranges}")
        # Use the peak of the first block, because the profiler's memory stays allocated later.
        report.memory = report.memory or memory.peak(self.device)

    def keep_again(self) -> None:
        self._ended.cut_last()
        self._blocks.pop()
        self._keep_block()

    def _keep_block(self) -> None:
        """Report the steps of the most common kind.

        If step times before and after the profile differ, report only the later ones.
        """
        ended, report = self._ended, self._report
        self._blocks.append([*zip(ended.stop(), ended.phases(), ended.kinds, strict=True)])
        if report.is_in_turn:
            report.note(IN_TURN_NOTE)
            report.step_ns, report.plain_ns, report.plain_phase_ns = [], [], {}
            return
        rows = [row for block in self._blocks for row in block]
        report.step_ns = [ns for ns, _, _ in rows]
        usual, count = Counter(kind for _, _, kind in rows).most_common(1)[0]
        rows = [row for row in rows if row[2] == usual]
        blocks = [[row for row in block if row[2] == usual] for block in self._blocks]
        times = [[ns for ns, _, _ in block] for block in blocks if block]
        if count < len(report.step_ns) * _USUAL_SHARE:
            report.note(MIXED_NOTE)
            rows = []
        elif len(times) > 1 and _are_apart(*times):
            before, after = (format_duration(statistics.median_low(block)) for block in times)
            report.note(APART_NOTE.format(before=before, after=after))
            rows = blocks[-1]
        report.plain_ns = [ns for ns, _, _ in rows]
        report.plain_phase_ns = _medians_of_phases([phases for _, phases, _ in rows])

    def keep_user_profiled(self) -> None:
        if self._user_profiler_clock is not None and self._report.profiled_step_ns is None:
            self._report.profiled_count = self._user_profiler_clock.step_count
            self._report.profiled_step_ns = median_ns(self._user_profiler_clock.stop())


def _are_apart(before: list[int], after: list[int]) -> bool:
    first, second = statistics.median(before), statistics.median(after)
    vary = min(after) <= first <= max(after) or min(before) <= second <= max(before)
    return max(first, second) > _APART * min(first, second) and not vary


def _medians_of_phases(steps: list[dict[str, int]]) -> dict[str, int]:
    if not all(steps):
        return {}
    names = dict.fromkeys(name for step in steps for name in step)
    return {name: round(statistics.median(s.get(name, 0) for s in steps)) for name in names}


def warm_ns(step_ns: list[int]) -> int | None:
    return median_ns(step_ns[1:] or step_ns)


def median_ns(step_ns: list[int]) -> int | None:
    """Return the median; of two values, the smaller one."""
    return statistics.median_low(step_ns) if step_ns else None
