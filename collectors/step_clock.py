"""Takes the time of steps without making any of them wait for the device."""

from __future__ import annotations

import time
from typing import Any

import torch

_NS_PER_EVENT_MS = 1_000_000


class StepClock:
    """Takes the time of each step up to the end of its device work: on a GPU by events.

    Args:
        device: where the steps compute.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._marks: list[Any] = []
        self.tick()

    def tick(self) -> None:
        """Mark the end of a step, and the beginning of the next."""
        if self._device.type == "cuda":
            mark = torch.cuda.Event(enable_timing=True)
            mark.record()
            self._marks.append(mark)
        else:
            self._marks.append(time.perf_counter_ns())

    def stop(self) -> list[int]:
        """Wait for the device and return the time of each step, ns."""
        pairs = list(zip(self._marks, self._marks[1:], strict=False))
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            return [round(begin.elapsed_time(end) * _NS_PER_EVENT_MS) for begin, end in pairs]
        return [end - begin for begin, end in pairs]
