"""A queue between two threads that either of them can end."""

from __future__ import annotations

import contextlib
import queue
from typing import Generic, TypeVar

T = TypeVar("T")

_LOOK_S = 0.05
"""How often whoever waits looks whether the other side is still there."""


class StoppedError(Exception):
    """There is nobody any more to hand over from."""


class HandOver(Generic[T]):
    """Things on their way from one thread to another, in order.

    Args:
        depth: how many may wait.
    """

    def __init__(self, depth: int) -> None:
        self._waiting: queue.Queue[T] = queue.Queue(depth)
        self._is_stopped = False

    def put(self, thing: T) -> bool:
        """Hand a thing over; waits for room. False if nobody will take it."""
        while not self._is_stopped:
            with contextlib.suppress(queue.Full):
                self._waiting.put(thing, timeout=_LOOK_S)
                return True
        return False

    def take(self) -> T:
        """Return the next thing; waits for one.

        Raises:
            StoppedError: there will be none.
        """
        while not self._is_stopped:
            with contextlib.suppress(queue.Empty):
                return self._waiting.get(timeout=_LOOK_S)
        raise StoppedError("the reading was stopped")

    def stop(self) -> None:
        """End it, and let go what is still waiting."""
        self._is_stopped = True
        with contextlib.suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()
