"""A queue between two threads that either can end, and a generator that runs ahead in one."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Generator, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_LOOK_S = 0.05
"""How often whoever waits looks whether the other side is still there."""


class StoppedError(Exception):
    """There is nobody any more to hand over from."""


class HandOver(Generic[T]):
    """Things on their way from one thread to another, in order."""

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
        raise StoppedError("reading was stopped")

    def stop(self) -> None:
        """End it, and let go what is still waiting."""
        self._is_stopped = True
        with contextlib.suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()


PATIENCE_S = 1.0
"""How long :meth:`ReadAhead.close` waits: a disk that does not answer must hold nobody up."""


class ReadAhead(Generic[T]):
    """The items of a generator, made before they are asked for.

    Iterating raises what the generator raised, behind the items before.
    """

    def __init__(self, items: Generator[T, None, None], depth: int) -> None:
        self._items = items
        self._made: HandOver[tuple[T] | BaseException | None] = HandOver(depth)
        self._thread = threading.Thread(target=self._run, name="tracekit-read-ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        """Yield the items; once.

        Raises:
            StoppedError: they have been taken, or this is closed.
        """
        while True:
            made = self._made.take()
            if isinstance(made, tuple):
                yield made[0]
                continue
            self._made.stop()
            if made is not None:
                raise made
            return

    def close(self) -> None:
        """Stop, and let go what was made; waits a moment for the item that is being made."""
        self._made.stop()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        try:
            for item in self._items:
                if not self._made.put((item,)):
                    break
            else:
                self._made.put(None)
        except BaseException as error:  # noqa: BLE001
            # Whatever it is, it belongs to the thread that takes the items.
            self._made.put(error)
        finally:
            # What it holds open is closed.
            self._items.close()
