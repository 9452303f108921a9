"""Profiles complete steps of an embedded engine, on the engine's thread.

Ranges and module hooks exist only during the profile, so they do not affect measured latencies.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from tracekit.errors import WorkloadError

from ...profiler.profile import Profile
from ...ranges import ModuleRanges, Range, phase, step
from ...ranges.attention_parts import RopeRanges
from ..plan import Mark
from ..records import RequestRecord
from .steps import Batch, StepRecorder

_GIVE_UP_TIMEOUT_S = 2.0


class StepProfile(StepRecorder):
    """A profile of consecutive steps, with a given start and length.

    `progress` returns the number of finished requests and the time, ns, since the start of the
    load. `max_step_count` limits the size of the trace.
    """

    def __init__(
        self,
        model: Any,
        profile: Profile,
        after: Mark,
        length: Mark | None,
        progress: Callable[[], tuple[int, int]],
        max_step_count: int | None = None,
    ) -> None:
        super().__init__()
        self._profile = profile
        self._after = after
        self._length = length
        self._begin = (0, 0)
        self._progress = progress
        self._max_step_count = max_step_count
        self._modules = ModuleRanges(model)
        self._rope = RopeRanges(model)
        self._is_on = False
        self._is_asked_to_end = False
        self._has_ended = threading.Event()
        self._ranges = contextlib.ExitStack()
        self.is_over = False
        self.first_step: int | None = None
        self.last_step: int | None = None
        self.start_ns: int | None = None
        self.end_ns: int | None = None

    @property
    def step_count(self) -> int:
        if self.first_step is None or self.last_step is None:
            return 0
        return self.last_step - self.first_step + 1

    @property
    def was_cut(self) -> bool:
        return self._max_step_count is not None and self.step_count >= self._max_step_count

    def is_enough(self, record: RequestRecord | None) -> bool:
        """Return whether the window is over and did not serve the unfinished request."""
        if not self.is_over:
            return False
        return record is None or not record.steps or record.steps[0][0] > (self.last_step or 0)

    def end(self, timeout_s: float) -> None:
        self._is_asked_to_end = True
        if self._is_on and not self._has_ended.wait(timeout_s):
            raise WorkloadError(f"the engine did not end its profile within {timeout_s:g} s")

    def give_up(self) -> None:
        """Remove the hooks without writing a trace, because the engine's thread may have ended."""
        self._is_asked_to_end = True
        if self._is_on and not self._has_ended.wait(_GIVE_UP_TIMEOUT_S):
            self._detach()

    def export(self) -> None:
        self._profile.export()

    def between_steps(self) -> None:
        """Start or stop the profile when due; called, like all below, on the engine's thread."""
        if self.is_over:
            return
        finished_count, elapsed_ns = self._progress()
        if self._is_asked_to_end or (self._is_on and self._is_due(finished_count, elapsed_ns)):
            self.stop()
        elif not self._is_on and self._after.is_reached(finished_count, elapsed_ns):
            self._modules.attach()
            self._rope.attach()
            self._profile.start()
            self._is_on = True
            # Starting the profiler takes time, so the window begins only now.
            self._begin = self._progress()
            self.start_ns = time.perf_counter_ns()

    def _is_due(self, finished_count: int, elapsed_ns: int) -> bool:
        count, begin_ns = self._begin
        return self.was_cut or (
            self._length is not None
            and self._length.is_reached(finished_count - count, elapsed_ns - begin_ns)
        )

    def step_begins(self, number: int) -> None:
        if self._is_on:
            if self.first_step is None:
                self.first_step = number
            self.last_step = number
            self._ranges.enter_context(step(number))

    def batch_chosen(self, batch: Batch) -> None:
        super().batch_chosen(batch)
        if self._is_on:
            self._ranges.enter_context(phase(batch.phase))
            self._ranges.enter_context(Range(batch.range_name))

    def stage(self, name: str) -> contextlib.AbstractContextManager[object]:
        return Range(f"tk/stage/{name}") if self._is_on else contextlib.nullcontext()

    def step_ends(self) -> None:
        self._ranges.close()
        super().step_ends()

    def stop(self) -> None:
        """Stop the profiler, which only this thread can do, and remove the hooks."""
        if self._is_on:
            self.end_ns = time.perf_counter_ns()
            try:
                self._profile.stop()
            finally:
                self._is_on = False
                self._detach()
        self.is_over = True
        self._has_ended.set()

    def _detach(self) -> None:
        self._rope.detach()
        self._modules.detach()
