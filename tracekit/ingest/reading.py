"""Reads a trace file ahead of whoever loads it.

Nothing here needs DuckDB: reading begins while it is loaded and the store is made.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from tracekit.ingest.bounded_queue import ReadAhead
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.progress import Progress
from tracekit.ingest.trace_readers import TraceReader, reader_of

if TYPE_CHECKING:
    from tracekit.ingest.event_collector import EventRows
    from tracekit.storage import Place

_BLOCKS_AHEAD = 9
"""How many blocks may be read while the store is made ready, or the ones before are loaded."""


class Reading:
    """One reading of a file from its beginning, and what was wrong with it.

    It begins at once, on a thread of its own, some blocks ahead of who loads them. A context
    manager; :meth:`close` ends it wherever it is.

    Args:
        path: the trace file, or its URL.
        progress: called now and then, on that thread, with how far the reading is.
        read: chooses the reader.

    Attributes:
        reader: what reads the file; there once :meth:`blocks` has yielded or ended.
    """

    reader: TraceReader

    def __init__(
        self,
        path: Place,
        progress: Callable[[Progress], None] | None = None,
        read: Callable[[ByteStream], TraceReader] = reader_of,
    ) -> None:
        self._progress = progress
        self._read = read
        self.path = path
        self.stream = ByteStream(path, self._on_read)
        self._ahead = ReadAhead(self._blocks(), _BLOCKS_AHEAD)

    def blocks(self) -> Iterator[EventRows]:
        """Yield the rows of the file's events, in order; once.

        Raises:
            TraceError: the file cannot be read.
        """
        return iter(self._ahead)

    def _blocks(self) -> Generator[EventRows, None, None]:
        self.reader = self._read(self.stream)
        yield from self.reader.blocks()

    def close(self) -> None:
        """Stop reading."""
        self._ahead.close()

    def __enter__(self) -> Reading:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _on_read(self, stream: ByteStream) -> None:
        if self._progress is not None:
            # The first bytes say what reads them.
            event_count = self.reader.event_count if hasattr(self, "reader") else 0
            read = Progress(
                str(stream.path), stream.file_bytes_read, stream.file_bytes, event_count
            )
            self._progress(read)
