"""Loads events into table record, from Arrow arrays.

Statements run on a separate thread while the caller continues to read. A large file takes several
statements, because the memory of a statement grows while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TYPE_CHECKING

from tracekit.database.connections import cursor_of
from tracekit.event_description import VIEW_NAME_TYPE
from tracekit.ingest.bounded_queue import HandOver
from tracekit.ingest.event_collector import EventRows

if TYPE_CHECKING:
    import duckdb

    from tracekit.ingest.event_collector import MakeStream

_WAITING_BLOCKS = 2
_BLOCKS_PER_STATEMENT = 24

_ARRIVED = "arrived"


class EventLoader:
    def __init__(self, connection: duckdb.DuckDBPyConnection, trace_id: int) -> None:
        self._cursor = cursor_of(connection)
        self._trace_id = trace_id
        self._blocks: HandOver[EventRows | None] = HandOver(_WAITING_BLOCKS)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tracekit-events")
        self._insert: Future[None] | None = None

    def add(self, rows: EventRows) -> None:
        """Queue events, waiting for room if necessary.

        Re-raise an exception from the loading thread.
        """
        if self._insert is None:
            self._insert = self._pool.submit(self._run)
        self._put(rows)

    def wait(self) -> None:
        """Wait until all queued events are loaded.

        Re-raise an exception from the loading thread.
        """
        if self._insert is not None:
            self._put(None)
            self._insert.result()

    def close(self) -> None:
        """Stop the loading thread and drop the queued events."""
        self._blocks.stop()
        self._pool.shutdown(wait=True)
        self._cursor.close()
        # The traceback of an error would keep a reference to this object.
        self._insert = None

    def _put(self, rows: EventRows | None) -> None:
        if not self._blocks.put(rows) and self._insert is not None:
            self._insert.result()

    def _run(self) -> None:
        blocks = iter(self._blocks.take, None)
        try:
            for first in blocks:
                some = chain([first], islice(blocks, _BLOCKS_PER_STATEMENT - 1))
                self._insert_arrays(some, first.stream)
        finally:
            self._blocks.stop()

    def _insert_arrays(self, blocks: Iterator[EventRows], stream: MakeStream) -> None:
        import duckdb

        arrays = (block.array for block in blocks)
        with stream(lambda: next(arrays, None)) as arrived:
            # DuckDB finds the stream by this name. Unregistering the name releases the stream.
            self._cursor.register(_ARRIVED, arrived)
            try:
                self._cursor.execute(_insert_sql(self._trace_id))
            except duckdb.TransactionException as error:
                if "failed to pin block" not in str(error):
                    raise
                # DuckDB's error at the end of a transaction if memory runs out.
                raise duckdb.OutOfMemoryException(str(error)) from error
            finally:
                self._cursor.unregister(_ARRIVED)


def _insert_sql(trace_id: int) -> str:
    threads = ", ".join(
        f"CASE WHEN {name}_text IS NULL THEN {name} ELSE {_stand_in(name + '_text')} END AS {name}"
        for name in ("pid", "tid")
    )
    return f"""INSERT INTO record BY NAME
        SELECT {trace_id} AS trace_id,
            * EXCLUDE (pid_text, tid_text)
            REPLACE ({threads}, view_name::{VIEW_NAME_TYPE} AS view_name)
        FROM {_ARRIVED}"""


def _stand_in(text: str) -> str:
    """Return SQL for the negative number that replaces a non-numeric process or thread id."""
    return f"-1 - (hash({text}) % 1000000007)::BIGINT"
