"""Gives DuckDB access to the files of a remote dataset: range reads of listed files only.

DuckDB reads through an fsspec file system that is registered for one connection. It gives access
only to the listed files, whose sizes it knows. Small pieces (the footer of a Parquet file, its
small columns) are fetched in blocks, which are cached temporarily.
"""

from __future__ import annotations

import datetime
import functools
import io
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

    from tracekit.storage import Location

PROTOCOL = "tracekit-dataset"

BLOCK_BYTES = 256 << 10
"""Minimum number of bytes per fetch; most small files fit in one block."""

MAX_BLOCKS = 256


def register(
    connection: duckdb.DuckDBPyConnection, dataset: Location, sizes_bytes: Mapping[str, int]
) -> str:
    from tracekit.storage.stores import missing_extra

    try:
        from fsspec.spec import AbstractFileSystem
    except ImportError:
        raise missing_extra(dataset.shown) from None

    @functools.lru_cache(MAX_BLOCKS)
    def block(name: str, start: int) -> bytes:
        end = min(start + BLOCK_BYTES, sizes_bytes[name])
        return dataset.join(name).read_exactly(start, end)

    def read(name: str, start: int, end: int) -> bytes:
        if end - start >= BLOCK_BYTES:
            return dataset.join(name).read_exactly(start, end)
        first = start - start % BLOCK_BYTES
        blocks = b"".join(block(name, at) for at in range(first, end, BLOCK_BYTES))
        return blocks[start - first : end - first]

    class File(io.RawIOBase):
        """One file with a position per thread, because several DuckDB threads read it."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self._name = name
            self._size_bytes = sizes_bytes[name]
            self._position = threading.local()

        def readable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return True

        def tell(self) -> int:
            return int(getattr(self._position, "at", 0))

        def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
            base = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size_bytes}
            self._position.at = base[whence] + offset
            return self.tell()

        def read(self, size: int = -1) -> bytes:
            start = self.tell()
            end = self._size_bytes if size < 0 else min(self._size_bytes, start + size)
            data = read(self._name, start, end) if start < end else b""
            self._position.at = start + len(data)
            return data

    class DatasetFiles(AbstractFileSystem):  # type: ignore[misc]
        protocol = PROTOCOL
        cachable = False

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            name = self._strip_protocol(path)
            if name not in sizes_bytes:
                raise FileNotFoundError(path)
            return {"name": name, "size": sizes_bytes[name], "type": "file"}

        def glob(self, path: str, **_: Any) -> list[str]:
            name = self._strip_protocol(path)
            return [name] if name in sizes_bytes else []

        def modified(self, path: str) -> datetime.datetime:
            # Files of a dataset never change, because their names depend on the content.
            del path
            return datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)

        def _open(self, path: str, mode: str = "rb", **_: Any) -> File:
            if mode != "rb":
                raise PermissionError("a dataset is read-only")
            return File(self.info(path)["name"])

    connection.register_filesystem(DatasetFiles())
    return f"{PROTOCOL}://"
