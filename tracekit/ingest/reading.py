"""Reads a trace file ahead of whoever loads it.

Nothing here needs DuckDB: reading begins while it is loaded and the store is made.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from tracekit.ingest.array_frames import BLOCK_BYTES, TraceText
from tracekit.ingest.bounded_queue import ReadAhead
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.event_collector import EventCollector, EventRows
from tracekit.ingest.progress import Progress
from tracekit.ingest.sources import usual_text_bytes
from tracekit.storage import Place

if TYPE_CHECKING:
    from tracekit.ingest.event_collector import MakeStream

MAX_BLOCK_BYTES = 8 << 20
"""Text whose rows are handed over at once, at most: each time costs the store something."""

_BLOCKS_AHEAD = 9
"""How many blocks may be read while the store is made ready, or the ones before are loaded."""


class Reading:
    """One reading of a file from its beginning, and what was wrong with it.

    It begins at once, on a thread of its own, some blocks ahead of who loads them. A context
    manager; :meth:`close` ends it wherever it is.

    Args:
        path: the trace file, or its URL.
        progress: called now and then, on that thread, with how far the reading is.
        is_compiled: let the compiled parser read what it can, where there is one.
        block_bytes: text whose rows are handed over at once, bytes; None to choose.
    """

    def __init__(
        self,
        path: Place,
        progress: Callable[[Progress], None] | None = None,
        *,
        is_compiled: bool = True,
        block_bytes: int | None = None,
    ) -> None:
        self._progress = progress
        self.path = path
        self.stream = ByteStream(path, self._on_read)
        self._collector = EventCollector(is_compiled=is_compiled)
        self.faults = self._collector.faults
        self._block_bytes = block_bytes or self._chosen_block_bytes()
        # What is read at once takes many times its memory in Python, before it becomes columns.
        most = self._block_bytes if self._collector.is_compiled else BLOCK_BYTES
        window_bytes = min(self._block_bytes, most)
        self.text = TraceText(self.stream, self._collector, window_bytes)
        self._ahead = ReadAhead(self._blocks(), _BLOCKS_AHEAD)

    def blocks(self) -> Iterator[EventRows]:
        """Yield the rows of the file's events, in order; once.

        Raises:
            TraceError: the file cannot be read.
        """
        return iter(self._ahead)

    def _blocks(self) -> Generator[EventRows, None, None]:
        for _ in self.text.read():
            if self._collector.text_bytes >= self._block_bytes:
                yield from self._taken()
        yield from self._taken()

    def _taken(self) -> Iterator[EventRows]:
        rows = self._collector.take()
        if rows is not None:
            yield rows

    @property
    def event_stream(self) -> MakeStream | None:
        """What makes an Arrow stream of arrays of rows; None where no parser is compiled."""
        return self._collector.stream

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

    def _chosen_block_bytes(self) -> int:
        """Choose the size of a block: where the file is small, its few blocks overlap too."""
        return min(max(usual_text_bytes(self.path) // 16, BLOCK_BYTES), MAX_BLOCK_BYTES)

    def _on_read(self, stream: ByteStream) -> None:
        if self._progress is not None:
            read = Progress(
                str(stream.path),
                stream.file_bytes_read,
                stream.file_bytes,
                self._collector.event_count,
            )
            self._progress(read)
