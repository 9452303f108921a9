"""A serving engine on one GPU that writes its trace by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Event = dict[str, Any]


class Engine:
    """Writes the trace of an engine on one GPU; each step launches its kernels one by one."""

    def __init__(self, gap_us: float = 1.0) -> None:
        self.events: list[Event] = []
        self.now_us = 0.0
        self._gap_us = gap_us
        self._correlation = 0

    def step(self, *names: str, kernels: Sequence[tuple[str, float]] = (("k", 8.0),)) -> None:
        """One step inside of ranges, the outermost first; the device waits before each kernel."""
        start = self.now_us
        self.now_us += 0.5
        for name, duration in kernels:
            self._kernel(name, duration)
        self.now_us += 0.5
        for name in names:
            self._span("user_annotation", name, 1, start, self.now_us - start)

    def tk_step(self, number: int, phase: str, batch: str | None = None, **more: Any) -> None:
        names = [f"tk/step/{number}", f"tk/phase/{phase}"]
        self.step(*names, *([f"tk/batch/{batch}"] if batch else []), **more)

    def _kernel(self, name: str, duration: float) -> None:
        self._correlation += 1
        self.now_us += self._gap_us
        linked = {"correlation": self._correlation, "device": 0, "stream": 7}
        self._span("cuda_runtime", "cudaLaunchKernel", 1, self.now_us - 0.25, 0.25, linked)
        self._span("kernel", name, 0, self.now_us, duration, linked)
        self.now_us += duration

    def _span(
        self, category: str, name: str, pid: int, start: float, dur: float, args: Any = None
    ) -> None:
        # Outer ranges begin first, so that they nest.
        tid = 7 if pid == 0 else 1
        named = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
        self.events.append({**named, "ts": start, "dur": dur, "args": args or {}})
