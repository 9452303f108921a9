"""The files of a dataset behind a URL, for DuckDB: read in ranges, nothing but what is listed.

DuckDB asks a file system of fsspec that is registered for one connection. It knows the files that
the manifest lists and their sizes, so nothing is asked for twice; it writes nothing, and gives out
nothing else, whatever SQL asks for. Small pieces (the end of a Parquet file, its small columns) are
fetched in blocks that are kept for a while.
"""

from __future__ import annotations

import datetime
import io
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracekit.errors import UsageError

if TYPE_CHECKING:
    import duckdb

    from tracekit.storage import Location

PROTOCOL = "tracekit-dataset"

BLOCK_BYTES = 256 << 10
"""What is fetched where less is asked for: most small files are one block."""

KEPT_BLOCKS = 256
"""How many blocks are kept: those of the ends of files, which are read again and again."""


def register(
    connection: duckdb.DuckDBPyConnection, dataset: Location, sizes_bytes: Mapping[str, int]
) -> str:
    """Let a connection read the files of a dataset.

    Returns:
        What the names of the files begin with in SQL.

    Raises:
        UsageError: what reads URLs is not installed.
    """
    try:
        from fsspec.spec import AbstractFileSystem
    except ImportError:
        raise UsageError(
            f"{dataset.shown}: what reads URLs is not installed",
            hint="install it with: pip install '.[remote]'",
        ) from None
    blocks = _Blocks(dataset, sizes_bytes)

    class DatasetFiles(AbstractFileSystem):  # type: ignore[misc]
        """The files of one dataset, to be read."""

        protocol = PROTOCOL
        cachable = False

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            name = self._strip_protocol(path)
            if name not in sizes_bytes:
                raise FileNotFoundError(path)
            return {"name": name, "size": sizes_bytes[name], "type": "file"}

        def exists(self, path: str, **_: Any) -> bool:
            return self._strip_protocol(path) in sizes_bytes

        def glob(self, path: str, **_: Any) -> list[str]:
            name = self._strip_protocol(path)
            return [name] if name in sizes_bytes else []

        def modified(self, path: str) -> datetime.datetime:
            # A file of a dataset never changes: what differs has another name.
            del path
            return datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)

        def _open(self, path: str, mode: str = "rb", **_: Any) -> _File:
            name = self._strip_protocol(path)
            if mode != "rb":
                raise PermissionError("a dataset is only read from")
            if name not in sizes_bytes:
                raise FileNotFoundError(path)
            return _File(blocks, name, sizes_bytes[name])

    connection.register_filesystem(DatasetFiles())
    return f"{PROTOCOL}://"


class _Blocks:
    """Ranges of the files of a dataset; the small ones are kept for a while."""

    def __init__(self, dataset: Location, sizes_bytes: Mapping[str, int]) -> None:
        self._places = {name: dataset.join(name) for name in sizes_bytes}
        self._sizes_bytes = sizes_bytes
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, name: str, start: int, end: int) -> bytes:
        """Return the bytes of a file from an offset to before another."""
        if end - start >= BLOCK_BYTES:
            return self._fetched(name, start, end)
        pieces = []
        at = start
        while at < end:
            number = at // BLOCK_BYTES
            block = self._block(name, number)
            begin = number * BLOCK_BYTES
            piece = block[at - begin : end - begin]
            pieces.append(piece)
            at += len(piece)
        return b"".join(pieces)

    def _block(self, name: str, number: int) -> bytes:
        key = name, number
        with self._lock:
            block = self._kept.get(key)
            if block is not None:
                self._kept.move_to_end(key)
                return block
        start = number * BLOCK_BYTES
        block = self._fetched(name, start, min(start + BLOCK_BYTES, self._sizes_bytes[name]))
        with self._lock:
            self._kept[key] = block
            if len(self._kept) > KEPT_BLOCKS:
                self._kept.popitem(last=False)
        return block

    def _fetched(self, name: str, start: int, end: int) -> bytes:
        return self._places[name].read_exactly(start, end)


class _File(io.RawIOBase):
    """One file, at a place in it for each thread: DuckDB reads it on several."""

    def __init__(self, blocks: _Blocks, name: str, size_bytes: int) -> None:
        super().__init__()
        self._blocks = blocks
        self._name = name
        self._size_bytes = size_bytes
        self._place = threading.local()

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def seekable(self) -> bool:
        """Tell that it can be read from any offset."""
        return True

    def tell(self) -> int:
        """Return the offset of the next byte."""
        return int(getattr(self._place, "at", 0))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to an offset; return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size_bytes}[whence]
        self._place.at = base + offset
        return base + offset

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, fewer where the file ends."""
        start = self.tell()
        end = self._size_bytes if size < 0 else min(self._size_bytes, start + size)
        piece = self._blocks.read(self._name, start, end) if start < end else b""
        self._place.at = start + len(piece)
        return piece
