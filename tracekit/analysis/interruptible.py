"""Lets Ctrl-C or a time limit stop a running query.

DuckDB detects Ctrl-C only if it runs in the main thread and the system delivers the signal there.
So a query runs in its own thread, and the main thread polls it. Between polls, Python handles
Ctrl-C, regardless of which thread received the signal.
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
    """One or several DuckDB connections."""

    def interrupt(self) -> None:
        """Stop the running statement."""


def interruptible(connection: Interruptible, work: Callable[[], T]) -> T:
    """Run work on a connection so that Ctrl-C stops it immediately."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    future: Future[T] = Future()
    worker = threading.Thread(target=_run, args=(future, work), name="tracekit-query", daemon=True)
    worker.start()
    try:
        while not wait([future], timeout=_POLL_S).done:
            pass
    except KeyboardInterrupt:
        # Interrupt repeatedly, because an interrupt between two statements is lost.
        while worker.is_alive():
            connection.interrupt()
            worker.join(_POLL_S)
        raise
    try:
        return future.result()
    finally:
        # Break the reference cycle between the error, this frame, and the future.
        del future


def _run(future: Future[T], work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001
        # Every error is raised in the waiting thread.
        future.set_exception(error)
    finally:
        del future


class Deadline:
    """Stops the statements of a connection after a time limit.

    The limit includes the time between statements and the time for reading rows.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, timeout_s: float | None) -> None:
        self._connection = connection
        self._end_s = None if timeout_s is None else monotonic() + timeout_s
        self._done = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether the time limit has passed."""
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
        # Interrupt repeatedly, because an interrupt between two statements is lost.
        while not done.wait(_POLL_S):
            self._connection.interrupt()
