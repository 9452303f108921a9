"""Background reader of a trace file.

It does not need DuckDB, so reading begins while DuckDB is imported and the store is created.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

from tracekit.ingest.bounded_queue import ReadAhead
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.trace_readers import Progress, TraceReader, reader_of

if TYPE_CHECKING:
    from tracekit.ingest.event_collector import EventRows
    from tracekit.storage import Place

_BLOCKS_AHEAD = 9


class Reading:
    """Context manager that reads one file in the background.

    The thread starts immediately and reads a few blocks ahead; :meth:`close` stops it. `progress`
    is called on that thread. `reader` is set once :meth:`blocks` has yielded or ended.
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
        return iter(self._ahead)

    def _blocks(self) -> Generator[EventRows, None, None]:
        self.reader = self._read(self.stream)
        yield from self.reader.blocks()

    def close(self) -> None:
        self._ahead.close()

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on_read(self, stream: ByteStream) -> None:
        if self._progress is not None:
            # The reader does not exist until the first bytes have been read.
            event_count = self.reader.event_count if hasattr(self, "reader") else 0
            read = Progress(
                str(stream.path), stream.file_bytes_read, stream.file_bytes, event_count
            )
            self._progress(read)
