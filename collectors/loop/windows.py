"""Schedules further profiled windows of a loop: periodic or on demand.

A file requests a window; it is empty or contains the number of steps. An empty file is accepted
only after a short time, because its content may follow. All ranks must profile the same steps. So
the first rank that sees the file writes an upcoming step into the store of the process group, and
the other ranks use that step.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from ..process.distributed import Place
from ..process.job import agree
from .plan import PROFILER_WARMUP_COUNT, LoopPlan

_AHEAD = 3
"""Number of steps from request to profiling, more than ranks can drift apart."""

_MAX_STEPS = 1000

_WRITTEN_S = 0.25
"""Time after which a file that is still empty is accepted, s."""


class Windows:
    def __init__(self, plan: LoopPlan, place: Place) -> None:
        self._plan = plan
        self._place = place
        self._left = plan.window_count - 1
        self._due: int | None = None
        self._requested_count: int | None = None
        self._handled: tuple[int, int] | None = None
        self._empty: tuple[tuple[int, int], float] | None = None
        self._steps_left = 0
        self.is_waiting = False

    @property
    def is_open(self) -> bool:
        return self._steps_left > 0

    def wait(self, step_number: int) -> bool:
        self._steps_left = 0
        self._due = None
        if self._left > 0:
            self._left -= 1
            self._due = step_number + self._plan.every_count
        self.is_waiting = self._due is not None or self._plan.request is not None
        return self.is_waiting

    def begin_if_due(self, step_number: int) -> int | None:
        """Open a window if its profiler starts now; return the number of steps to profile."""
        if self._due is None or self._requested_count is None:
            self._look(step_number)
        if self._due is None or step_number < self._due:
            return None
        count = self._requested_count or self._plan.profiled_count
        self._requested_count = None
        self._steps_left = count + PROFILER_WARMUP_COUNT
        self.is_waiting = False
        return count

    def step_ended(self) -> bool:
        self._steps_left -= 1
        return self._steps_left == 0

    def _look(self, step_number: int) -> None:
        if self._plan.request is None:
            return
        try:
            result = os.stat(self._plan.request)  # noqa: PTH116 - once a step: as cheap as it gets
        except OSError:
            return
        mark = (result.st_mtime_ns, result.st_ino)
        if mark == self._handled:
            return
        if not result.st_size and not self._stays_empty(mark):
            return
        self._handled = mark
        self._requested_count = _count_in(Path(self._plan.request)) or self._plan.profiled_count
        first = step_number + (_AHEAD if self._place.world_size > 1 else 0)
        agreed = agree(f"window/{result.st_mtime_ns}", str(first))
        self._due = int(agreed) if agreed is not None and agreed.isdecimal() else first

    def _stays_empty(self, mark: tuple[int, int]) -> bool:
        now_s = time.monotonic()
        if self._empty is None or self._empty[0] != mark:
            self._empty = mark, now_s
        return now_s - self._empty[1] >= _WRITTEN_S


def _count_in(request: Path) -> int | None:
    try:
        text = request.read_text("ascii", "replace")[:20].strip()
    except OSError:
        return None
    return min(int(text), _MAX_STEPS) if text.isdecimal() and int(text) else None
