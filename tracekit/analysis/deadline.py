"""An end to what runs on a connection, after so much time."""

from __future__ import annotations

import threading
from time import monotonic

from tracekit.database.engine import duckdb

_POLL_S = 0.05


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
