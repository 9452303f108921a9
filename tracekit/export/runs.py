"""The rows of statements, in runs of those that belong to one track."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any

from tracekit.export.encoders import compiled_encoders
from tracekit.export.scene import Row

if TYPE_CHECKING:
    from tracekit.analysis.arrow_rows import ArrowRows
    from tracekit.trace import Trace

_BATCHES_AHEAD = 1
"""So many batches of rows wait to be written at most; DuckDB gives up to 131,072 rows in one."""

_POLL_S = 0.05


def runs_of(
    trace: Trace, statements: Iterable[str], key_count: int, *, is_columns: bool
) -> Generator[tuple[Row, Iterable[Row]]]:
    """Ask statements one after the other; give the rows of each whose first columns are equal.

    Args:
        trace: the store; nothing else may be asked of it until the end.
        statements: SQL that orders rows by the first columns.
        key_count: how many columns these are.
        is_columns: give what the compiled encoders alone take: DuckDB makes the next rows while
            these are written.

    Yields:
        The first columns, and the whole rows, which have to be taken at once.
    """
    if is_columns:
        yield from _runs_of_columns(trace, statements, key_count)
        return
    key = itemgetter(slice(key_count))
    for statement in statements:
        yield from groupby(trace.stream_sql(statement).rows, key)


def _runs_of_columns(
    trace: Trace, statements: Iterable[str], key_count: int
) -> Generator[tuple[Row, Any]]:
    ahead = _Ahead(trace, statements)
    try:
        runs = compiled_encoders().Runs(ahead.batches())
        while (key := runs.next(key_count)) is not None:
            yield key, runs
    finally:
        ahead.stop()


class _StreamError(Exception):
    """A stream failed; the message is DuckDB's."""


class _StoppedError(Exception):
    """Nobody wants more rows."""


class _Ahead:
    """Takes batches from DuckDB in a thread of its own, some before they are needed.

    Args:
        trace: the store.
        statements: what to ask one after the other.
    """

    def __init__(self, trace: Trace, statements: Iterable[str]) -> None:
        self._trace = trace
        self._statements = statements
        self._queue: Queue[Any] = Queue(_BATCHES_AHEAD)
        self._is_stopped = threading.Event()
        self._asked: ArrowRows | None = None
        self._thread = threading.Thread(target=self._work, name="tracekit-export", daemon=True)
        self._thread.start()

    def batches(self) -> Iterator[Any]:
        """Give batch after batch; raise what went wrong with the next."""
        while True:
            # In short turns: a Ctrl-C may have been delivered to another thread.
            with contextlib.suppress(Empty):
                batch, error = self._queue.get(timeout=_POLL_S)
                if error is not None:
                    raise error
                if batch is None:
                    return
                yield batch

    def stop(self) -> None:
        """Leave the connection to others."""
        self._is_stopped.set()
        while self._thread.is_alive():
            # Again and again: an interrupt that comes between two statements is lost.
            if self._asked is not None:
                self._asked.interrupt()
            self._thread.join(_POLL_S)

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            self._take()
        except BaseException as raised:  # noqa: BLE001
            # Whatever it is, it belongs to the thread that waits.
            error = raised.with_traceback(None)
        with contextlib.suppress(_StoppedError):
            self._put(None, error)

    def _take(self) -> None:
        encoders = compiled_encoders()
        for statement in self._statements:
            self._asked = asked = self._trace.stream_arrow(statement)
            try:
                for batch in encoders.Batches(asked.__arrow_c_stream__(), _StreamError):
                    self._put(batch, None)
            except _StreamError as error:
                raise asked.error_of(str(error)) from None

    def _put(self, batch: Any, error: BaseException | None) -> None:
        while not self._is_stopped.is_set():
            with contextlib.suppress(Full):
                self._queue.put((batch, error), timeout=_POLL_S)
                return
        raise _StoppedError
