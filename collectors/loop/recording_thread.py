"""The thread on which a loop is recorded.

torch.profiler observes the thread that started it, and exporting a trace on another thread crashes
the process (SIGSEGV, torch 2.13). Training on other threads is therefore ignored, and a recording
ends on its own thread, at the latest when that thread ends.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable


class RecordingThread:
    def __init__(self) -> None:
        self._local = threading.local()
        self.is_known = False
        # Number of the current binding. Marks of other threads have other numbers.
        self._number = 0

    def bind(self, at_end: Callable[[], object]) -> None:
        """Bind an unbound loop to this thread. `at_end` runs when the thread ends."""
        if self.is_known:
            return
        self.is_known = True
        self._number += 1
        number = self._number

        def end() -> None:
            if self._number == number:
                # The thread's mark is already destroyed, so is_elsewhere would be true on this
                # thread.
                self.is_known = False
                at_end()

        is_main = threading.current_thread() is threading.main_thread()
        self._local.mark = _Mark(number, None if is_main else end)

    def release(self) -> None:
        self.is_known = False
        self._number += 1

    @property
    def is_elsewhere(self) -> bool:
        mark = getattr(self._local, "mark", None)
        return self.is_known and (mark is None or mark.number != self._number)


class _Mark:
    """A thread-local object that is destroyed when its thread ends."""

    def __init__(self, number: int, at_end: Callable[[], None] | None) -> None:
        self.number = number
        self._at_end = at_end

    def __del__(self) -> None:
        if self._at_end is not None:
            with contextlib.suppress(Exception):  # an error here must not break the user's program
                self._at_end()
