"""Bounded queue between two threads, and a generator that runs ahead on its own thread."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Generator, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_LOOK_S = 0.05


class StoppedError(Exception):
    """The queue was stopped."""


class HandOver(Generic[T]):
    """FIFO queue of items from one thread to another, which either side can stop."""

    def __init__(self, depth: int) -> None:
        self._waiting: queue.Queue[T] = queue.Queue(depth)
        self._is_stopped = False

    def put(self, thing: T) -> bool:
        """Add an item, waiting for room if necessary. Return False if the queue was stopped."""
        while not self._is_stopped:
            with contextlib.suppress(queue.Full):
                self._waiting.put(thing, timeout=_LOOK_S)
                return True
        return False

    def take(self) -> T:
        while not self._is_stopped:
            with contextlib.suppress(queue.Empty):
                return self._waiting.get(timeout=_LOOK_S)
        raise StoppedError("reading was stopped")

    def stop(self) -> None:
        """Stop the queue and drop the remaining items."""
        self._is_stopped = True
        with contextlib.suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()


PATIENCE_S = 1.0
"""Maximum time that :meth:`ReadAhead.close` waits, in case a disk does not respond."""


class ReadAhead(Generic[T]):
    """Iterator over the items of a generator that runs ahead on its own thread.

    An exception in the generator is raised after the preceding items.
    """

    def __init__(self, items: Generator[T, None, None], depth: int) -> None:
        self._items = items
        self._output: HandOver[tuple[T] | BaseException | None] = HandOver(depth)
        self._thread = threading.Thread(target=self._run, name="tracekit-read-ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        """Yield the items. Can be iterated only once."""
        while True:
            item = self._output.take()
            if isinstance(item, tuple):
                yield item[0]
                continue
            self._output.stop()
            if item is not None:
                raise item
            return

    def close(self) -> None:
        """Stop, drop the remaining items, and wait briefly for the current one."""
        self._output.stop()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        try:
            for item in self._items:
                if not self._output.put((item,)):
                    break
            else:
                self._output.put(None)
        except BaseException as error:  # noqa: BLE001
            # All exceptions are raised again in the thread that reads the items.
            self._output.put(error)
        finally:
            # Close the files that the generator holds open.
            self._items.close()
