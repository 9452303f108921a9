"""Discrete-event simulation: processes that wait for times and for each other."""

import heapq
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

Process = Generator[Any, None, None]
"""It yields the time (ns) or signal that it waits for, or a tuple of which the first wakes it."""


@dataclass(eq=False, slots=True)
class Signal:
    """An event that happens once."""

    at_ns: int | None = None
    waiting: list[tuple[Process, int]] = field(default_factory=list)


class Clock:
    """Runs processes in the order of their times."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._agenda: list[tuple[int, int, Process, int]] = []
        self._wakings: dict[Process, int] = {}
        self._count = 0

    def start(self, process: Process) -> None:
        self._wakings[process] = 0
        self._wake(process, 0, self.now_ns)

    def fire(self, signal: Signal) -> None:
        signal.at_ns = self.now_ns
        for process, waking in signal.waiting:
            self._wake(process, waking, self.now_ns)

    def run(self) -> None:
        while self._agenda:
            self.now_ns, _, process, waking = heapq.heappop(self._agenda)
            # A process that waits for several signals was already resumed by the first.
            if self._wakings.get(process) == waking:
                self._resume(process, waking + 1)

    def _wake(self, process: Process, waking: int, at_ns: int) -> None:
        # Simultaneous events run in the order in which they were scheduled.
        self._count += 1
        heapq.heappush(self._agenda, (at_ns, self._count, process, waking))

    def _resume(self, process: Process, waking: int) -> None:
        try:
            wish = next(process)
        except StopIteration:
            del self._wakings[process]
            return
        self._wakings[process] = waking
        for reason in wish if isinstance(wish, tuple) else (wish,):
            if isinstance(reason, int):
                self._wake(process, waking, max(reason, self.now_ns))
            elif reason.at_ns is not None:
                self._wake(process, waking, self.now_ns)
            else:
                reason.waiting.append((process, waking))
