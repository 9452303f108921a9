"""Runs an iterator on a thread of its own, some items ahead of whoever takes them."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_LOOK_S = 0.05
"""How often a full queue is looked at for whether anybody still wants what is in it."""


class ReadAhead(Generic[T]):
    """The items of an iterator, made before they are asked for.

    Args:
        items: used on the thread only.
        depth: how many items may wait.

    Iterating raises what the iterator raised, behind the items before.
    """

    def __init__(self, items: Iterator[T], depth: int) -> None:
        self._items = items
        self._made: queue.Queue[tuple[T] | BaseException | None] = queue.Queue(depth)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="tracekit-read-ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        """Yield the items; once."""
        while True:
            made = self._made.get()
            if made is None:
                return
            if isinstance(made, BaseException):
                raise made
            yield made[0]

    def close(self) -> None:
        """Stop, wherever it is, and wait for that."""
        self._is_closed = True
        self._thread.join()

    def _run(self) -> None:
        try:
            for item in self._items:
                self._put((item,))
                if self._is_closed:
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001
            # Whatever it is, it belongs to the thread that takes the items.
            self._put(error)

    def _put(self, made: tuple[T] | BaseException | None) -> None:
        while not self._is_closed:
            with contextlib.suppress(queue.Full):
                self._made.put(made, timeout=_LOOK_S)
                return
