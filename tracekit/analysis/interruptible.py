"""Let Ctrl-C or a time limit end a running query, always.

DuckDB looks for a pending Ctrl-C itself while it runs in the main thread, but misses one that the
system delivered to another thread. So a query runs in a thread of its own, and the main thread
waits for it in short turns: after each, Python looks for a Ctrl-C wherever it was delivered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from time import monotonic
from typing import Protocol, TypeVar

import duckdb

T = TypeVar("T")

_POLL_S = 0.05


class Interruptible(Protocol):
    """What runs the work: a DuckDB connection, or several."""

    def interrupt(self) -> None:
        """Stop what runs now."""


def interruptible(connection: Interruptible, work: Callable[[], T]) -> T:
    """Run work on a connection so that an interrupt of the process stops it at once.

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


class Deadline:
    """Stops what runs on a connection when its time is over.

    Time between two statements, or while somebody reads the rows, counts too.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, timeout_s: float | None) -> None:
        self._connection = connection
        self._end_s = None if timeout_s is None else monotonic() + timeout_s
        self._done = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether the time has passed."""
        return self._end_s is not None and monotonic() >= self._end_s

    def __enter__(self) -> None:
        self._done = threading.Event()
        if self._end_s is not None:
            watch = threading.Thread(
                target=self._watch, args=(self._done,), name="tracekit-timeout", daemon=True
            )
            watch.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()

    def _watch(self, done: threading.Event) -> None:
        assert self._end_s is not None
        if done.wait(max(0.0, self._end_s - monotonic())):
            return
        # Again and again: an interrupt that comes between two statements is lost.
        while not done.wait(_POLL_S):
            self._connection.interrupt()
