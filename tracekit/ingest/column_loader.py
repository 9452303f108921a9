"""Loads events that came as columns.

Nearly all events of nearly all traces are read by the compiled parser (native/), which hands
them over as Arrow arrays. Statements on a thread of their own take them while the caller reads on:
a small file is one statement; a large one is several, as memory grows while one runs.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TYPE_CHECKING

from tracekit.database import cursor_of
from tracekit.ingest.chrome_json import EventColumns
from tracekit.ingest.normalize import columns_sql

if TYPE_CHECKING:
    import duckdb
    from typing_extensions import CapsuleType

_WAITING_ARRAYS = 2
_ARRAYS_PER_STATEMENT = 24
_LOOK_S = 0.05
"""How often is looked whether the other side is still there."""


class ColumnLoader:
    """Puts events into table record, in order.

    Args:
        connection: of the store that is being built.
        trace_id: the trace.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, trace_id: int) -> None:
        self._cursor = cursor_of(connection)
        self._trace_id = trace_id
        self._arrays: queue.Queue[CapsuleType | None] = queue.Queue(_WAITING_ARRAYS)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tracekit-columns")
        self._insert: Future[None] | None = None
        self._is_stopped = False

    def add(self, columns: EventColumns) -> None:
        """Have events loaded; waits while too many others do; raises what loading raised."""
        if self._insert is None:
            self._insert = self._pool.submit(self._run)
        self._put(columns.array)

    def wait(self) -> None:
        """Load what was added and wait for it; raise what loading raised."""
        if self._insert is not None:
            self._put(None)
            self._insert.result()

    def close(self) -> None:
        """Stop, and drop what is under way."""
        self._is_stopped = True
        self._pool.shutdown(wait=True)
        self._cursor.close()

    def _put(self, array: CapsuleType | None) -> None:
        while self._insert is not None and not self._insert.done():
            with contextlib.suppress(queue.Full):
                self._arrays.put(array, timeout=_LOOK_S)
                return
        if self._insert is not None:
            self._insert.result()

    def _run(self) -> None:
        arrays = iter(self._take, None)
        for first in arrays:
            self._insert_all(chain([first], islice(arrays, _ARRAYS_PER_STATEMENT - 1)))

    def _insert_all(self, arrays: Iterator[CapsuleType]) -> None:
        from tracekit.ingest._event_parser import event_stream

        # DuckDB finds the stream by its name; what it holds of this is let go again.
        self._cursor.register("arrived", event_stream(lambda: next(arrays, None)))
        try:
            self._cursor.execute(columns_sql(self._trace_id, "arrived"))
        finally:
            self._cursor.unregister("arrived")

    def _take(self) -> CapsuleType | None:
        while not self._is_stopped:
            with contextlib.suppress(queue.Empty):
                return self._arrays.get(timeout=_LOOK_S)
        raise RuntimeError("the reading was stopped")
