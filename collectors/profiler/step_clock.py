"""Takes the time of steps without making any of them wait for the device."""

from __future__ import annotations

import time
from typing import Any

import torch

from ..machine import accelerator

_NS_PER_EVENT_MS = 1_000_000


class StepClock:
    """Takes the time of each step up to the end of its device work: on a GPU by events.

    Steps follow each other: the end of one (`tick`) is the beginning of the next. What lies
    between `pause` and `resume` belongs to none. Without a device it takes no time of any.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self._device = device
        self._steps: list[list[tuple[Any, Any]]] = []
        self._parts: list[tuple[Any, Any]] = []
        self._begin: Any = None
        # When the optimizers had stepped: in this step so far, and in the one that ended last.
        self._optimized: Any = None
        self._last_optimized: Any = None
        self.resume()

    @property
    def step_count(self) -> int:
        return len(self._steps)

    def tick(self) -> None:
        """Mark the end of a step; the next begins here, or where the clock is resumed."""
        if self._device is None:
            return
        mark = None
        if self._begin is not None:
            mark = self._mark()
            self._parts.append((self._begin, mark))
        self._steps.append(self._parts)
        self._parts = []
        self._begin = mark
        self._optimized, self._last_optimized = None, self._optimized

    def note_optimized(self) -> None:
        """Note that an optimizer has stepped: the step may be over here."""
        if self._device is not None:
            self._optimized = self._mark()

    def cut_last(self) -> None:
        """Let the step that ended last end with its optimizer: nothing of its loop followed."""
        if self._last_optimized is not None and self._steps and self._steps[-1]:
            begin, _ = self._steps[-1].pop()
            self._steps[-1].append((begin, self._last_optimized))
            self._last_optimized = None

    def pause(self) -> None:
        """Stop the clock inside of a step; what follows is in none. Nothing if it is stopped."""
        if self._begin is not None:
            self._parts.append((self._begin, self._mark()))
            self._begin = None

    def resume(self) -> None:
        if self._begin is None and self._device is not None:
            self._begin = self._mark()

    def forget_parts(self) -> None:
        """Forget what has passed of the step, up to the last pause."""
        self._parts.clear()

    def drop(self) -> None:
        if self._steps:
            self._steps.pop()

    def stop(self) -> list[int]:
        """Wait for the device and return the time of each step, ns."""
        if self._device is not None:
            accelerator.synchronize(self._device)
        return [sum(_between_ns(*part) for part in parts) for parts in self._steps]

    def _mark(self) -> Any:
        return (self._device and accelerator.event(self._device)) or time.perf_counter_ns()


def _between_ns(begin: Any, end: Any) -> int:
    if isinstance(begin, int):
        return int(end - begin)
    return round(begin.elapsed_time(end) * _NS_PER_EVENT_MS)
