"""Runs an iterator on a thread of its own, some items ahead of whoever takes them."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from typing import Generic, TypeVar

from tracekit.ingest.hand_over import HandOver

T = TypeVar("T")

PATIENCE_S = 1.0
"""How long :meth:`ReadAhead.close` waits: a disk that does not answer must hold nobody up."""


class ReadAhead(Generic[T]):
    """The items of a generator, made before they are asked for.

    Args:
        items: used on the thread only.
        depth: how many items may wait.

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
