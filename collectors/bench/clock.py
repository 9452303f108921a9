"""Clocks for benchmarks: CUDA events and the wall clock.

Both time a batch of calls. The event clock first keeps the device busy while the host queues the
batch, so that the time between the two events contains no launch overhead.
(`torch.cuda.Event.elapsed_time` has a resolution of about half a microsecond.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracekit.units import NS_PER_MS

if TYPE_CHECKING:
    import torch

Call = Callable[[], object]

MAX_QUEUED = 500
"""Maximum number of calls queued at once, because a stream holds about a thousand launches."""

# Time that the host needs to queue a call: about 10 µs, in cycles of a device at about 1.5 GHz.
_CYCLES_PER_CALL = 15_000
_MIN_CYCLES = 75_000
_MAX_CYCLES = 15_000_000


class WallClock:
    """Times calls with the host clock until they finish (CPU) or are launched (device)."""

    timer = "wall_clock"

    def __init__(
        self,
        synchronize: Callable[[], object] = lambda: None,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._synchronize = synchronize
        self._now_ns = now_ns

    def time_ns(self, call: Call, count: int) -> float:
        now_ns = self._now_ns
        self._synchronize()
        begin_ns = now_ns()
        for _ in range(count):
            call()
        took_ns = now_ns() - begin_ns
        self._synchronize()
        return took_ns


class EventClock:
    timer = "cuda_event"

    def __init__(self, device: torch.device, cuda: Any = None) -> None:
        if cuda is None:
            import torch

            cuda = torch.cuda
        self._cuda = cuda
        self._device = device
        self._begin = cuda.Event(enable_timing=True)
        self._end = cuda.Event(enable_timing=True)

    def time_ns(self, call: Call, count: int) -> float:
        self._cuda.synchronize(self._device)
        self._occupy_device(count)
        self._begin.record()
        for _ in range(count):
            call()
        self._end.record()
        self._end.synchronize()
        return self._begin.elapsed_time(self._end) * NS_PER_MS

    def _occupy_device(self, count: int) -> None:
        """Keep the device busy while the host queues the calls."""
        sleep = getattr(self._cuda, "_sleep", None)
        if sleep is not None:
            sleep(min(max(count * _CYCLES_PER_CALL, _MIN_CYCLES), _MAX_CYCLES))


def clock_of(timer: str, device: torch.device) -> WallClock | EventClock:
    if timer == EventClock.timer:
        return EventClock(device)
    if device.type == "cuda":
        import torch

        return WallClock(lambda: torch.cuda.synchronize(device))
    return WallClock()
