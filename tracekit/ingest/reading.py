"""Reads a trace file ahead of whoever loads it.

Nothing here needs DuckDB: reading begins while it is loaded and the store is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.chrome_json import (
    BLOCK_BYTES,
    MAX_BLOCK_BYTES,
    Block,
    EventColumns,
    Rejected,
    Repaired,
    TraceText,
)
from tracekit.ingest.progress import Progress
from tracekit.ingest.read_ahead import ReadAhead

USUAL_GZIP_RATIO = 15
"""What a trace shrinks by in gzip, roughly; only sizes of blocks and buffers hang on it."""

_BLOCKS_AHEAD = 9
"""How many blocks may be read while the store is made ready, or the ones before are loaded."""


class Reading:
    """One reading of a file from its beginning, and what its loading found wrong.

    It begins at once, on a thread of its own, some blocks ahead of who loads them. A context
    manager; :meth:`close` ends it wherever it is.

    Args:
        path: the trace file.
        progress: called now and then, on that thread, with how far the reading is.
    """

    def __init__(self, path: Path, progress: Callable[[Progress], None] | None = None) -> None:
        self._progress = progress
        self.path = path
        self.stream = ByteStream(path, self._on_read)
        self.block_bytes = _block_bytes(path)
        self.text = TraceText(self.stream, self.block_bytes)
        self.rejected: list[Rejected] = []
        self.repaired: list[Repaired] = []
        self._ahead = ReadAhead(self.text.blocks(), _BLOCKS_AHEAD)

    def blocks(self) -> Iterator[Block | EventColumns]:
        """Yield the blocks of the file; once.

        Raises:
            TraceError: the file cannot be read.
        """
        return iter(self._ahead)

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
            read = Progress(
                str(stream.path), stream.file_bytes_read, stream.file_bytes, self.text.event_count
            )
            self._progress(read)


def usual_text_bytes(path: Path) -> int:
    """Guess how much JSON text a file holds, from its size; 0 if it cannot be looked at."""
    try:
        packed_bytes = path.stat().st_size
    except OSError:
        return 0
    return packed_bytes * (USUAL_GZIP_RATIO if path.suffix == ".gz" else 1)


def _block_bytes(path: Path) -> int:
    """Choose the size of a block: small where the file is, so that its few blocks overlap too."""
    return min(max(usual_text_bytes(path) // 16, BLOCK_BYTES), MAX_BLOCK_BYTES)
