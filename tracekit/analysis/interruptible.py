"""Let Ctrl-C end a running query, always.

DuckDB looks for a pending Ctrl-C itself while it runs in the main thread, but misses one that the
system delivered to another thread. So a query runs in a thread of its own, and the main thread
waits for it in short turns: after each, Python looks for a Ctrl-C wherever it was delivered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Protocol, TypeVar

T = TypeVar("T")

_POLL_S = 0.05


class Interruptible(Protocol):
    """What runs the work: a DuckDB connection, or several."""

    def interrupt(self) -> None:
        """Stop what runs now."""


def interruptible(connection: Interruptible, work: Callable[[], T]) -> T:
    """Run work on a connection so that an interrupt of the process stops it at once.

    Args:
        connection: the connection that the work uses; nothing else uses it meanwhile.
        work: what to run.

    Returns:
        What the work returns.

    Raises:
        KeyboardInterrupt: the process was interrupted; the connection can be used again.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    future: Future[T] = Future()
    worker = threading.Thread(target=_run, args=(future, work), name="tracekit-query", daemon=True)
    worker.start()
    try:
        while not wait([future], timeout=_POLL_S).done:
            pass
    except KeyboardInterrupt:
        # Again and again: an interrupt that comes between two statements is lost.
        while worker.is_alive():
            connection.interrupt()
            worker.join(_POLL_S)
        raise
    try:
        return future.result()
    finally:
        # An error holds this frame, and the future holds the error: end the circle.
        del future


def _run(future: Future[T], work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001
        # Whatever it is, it belongs to the thread that waits.
        future.set_exception(error)
    finally:
        del future
