"""Loads events that came as columns.

Nearly all events of nearly all traces are read by the compiled parser (native/), which hands
them over as Arrow arrays. Statements on a thread of their own take them while the caller reads on:
a small file is one statement; a large one is several, as memory grows while one runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TYPE_CHECKING

from tracekit.database import cursor_of
from tracekit.ingest.chrome_json import EventColumns
from tracekit.ingest.hand_over import HandOver
from tracekit.ingest.normalize import columns_sql

if TYPE_CHECKING:
    import duckdb
    from typing_extensions import CapsuleType

_WAITING_ARRAYS = 2
_ARRAYS_PER_STATEMENT = 24


class ColumnLoader:
    """Puts events into table record, in order.

    Args:
        connection: of the store that is being built.
        trace_id: the trace.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, trace_id: int) -> None:
        self._cursor = cursor_of(connection)
        self._trace_id = trace_id
        self._arrays: HandOver[CapsuleType | None] = HandOver(_WAITING_ARRAYS)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tracekit-columns")
        self._insert: Future[None] | None = None

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
        self._arrays.stop()
        self._pool.shutdown(wait=True)
        self._cursor.close()
        # An error in it would hold the frames that hold this.
        self._insert = None

    def _put(self, array: CapsuleType | None) -> None:
        if not self._arrays.put(array) and self._insert is not None:
            self._insert.result()

    def _run(self) -> None:
        arrays = iter(self._arrays.take, None)
        try:
            for first in arrays:
                self._insert_all(chain([first], islice(arrays, _ARRAYS_PER_STATEMENT - 1)))
        finally:
            self._arrays.stop()

    def _insert_all(self, arrays: Iterator[CapsuleType]) -> None:
        from tracekit.ingest._event_parser import event_stream

        # DuckDB finds the stream by its name; what it holds of this is let go again.
        self._cursor.register("arrived", event_stream(lambda: next(arrays, None)))
        try:
            self._cursor.execute(columns_sql(self._trace_id, "arrived"))
        finally:
            self._cursor.unregister("arrived")
