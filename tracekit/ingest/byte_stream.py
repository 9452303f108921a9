"""Stream of the decompressed bytes of a trace file.

The first bytes, not the file name, distinguish plain files from gzip files, which may have any
number of members. A damaged or truncated gzip stream yields all bytes that can be inflated.
:attr:`ByteStream.problem` then describes the fault, which the caller reports.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from isal import isal_zlib

from tracekit.errors import TraceError
from tracekit.ingest.budget import FREE_INFLATED_BYTES, INFLATED_PER_BYTE
from tracekit.storage import Location, Place

CHUNK_BYTES = 1 << 20
"""File bytes per read. Inflated gzip traces are 10 to 20 times as large."""

_INFLATE_LIMIT_BYTES = 2 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW_BITS = 31
_FOREIGN_MAGIC = {
    b"\x28\xb5\x2f\xfd": ("zstd", "unpack it first: zstd -d FILE"),
    b"PK\x03\x04": ("zip", "unpack it first: unzip FILE"),
    b"BZh": ("bzip2", "unpack it first: bunzip2 FILE"),
    b"\xfd7zXZ\x00": ("xz", "unpack it first: unxz FILE"),
    b"\xff\xfe": ("UTF-16", "convert it first: iconv -f UTF-16 -t UTF-8 FILE"),
    b"\xfe\xff": ("UTF-16", "convert it first: iconv -f UTF-16 -t UTF-8 FILE"),
}
HEAD_BYTES = 64
"""Number of bytes at the start of a file that identify its format."""

_UTF8_BOM = b"\xef\xbb\xbf"


class ByteStream:
    """Plain bytes of one file, read once from front to back.

    `file_bytes` and `file_bytes_read` count bytes on disk. `text_bytes` counts the plain bytes
    returned so far. `problem` describes a fault of the gzip stream, or is None.
    """

    def __init__(self, path: Place, on_read: Callable[[ByteStream], None] | None = None) -> None:
        self.path = path
        self._location = Location.of(path)
        self.file_bytes = 0
        self.file_bytes_read = 0
        self.text_bytes = 0
        self.problem: str | None = None
        self.is_truncated = False
        self._on_read = on_read
        self._chunks: Generator[bytes, None, None] | None = None
        self._first = b""
        self._is_packed = False

    def head(self) -> bytes:
        """Return the first plain bytes, at most 64, without consuming them."""
        if self._chunks is None:
            self._chunks = self._plain()
            self._first = next(self._chunks, b"")
        return self._first[:HEAD_BYTES]

    def __iter__(self) -> Generator[bytes, None, None]:
        self.head()
        chunks, first = self._chunks or self._plain(), self._first
        self._chunks, self._first = None, b""
        with closing(chunks):
            if first:
                yield first
                del first
            yield from chunks

    @contextmanager
    def local_file(self) -> Iterator[Path]:
        """Yield a local file with the plain bytes: the file itself, or a temporary copy."""
        self.head()
        path = self._location.local_path
        if path is not None and path.is_file() and not self._is_packed:
            if self._chunks is not None:
                self._chunks.close()
            self.text_bytes = self.file_bytes_read = self.file_bytes
            yield path
            return
        import shutil

        from tracekit.storage.temp_dirs import temporary_folder

        folder = temporary_folder()
        try:
            path = folder / "plain"
            with path.open("wb") as file:
                for chunk in self:
                    file.write(chunk)
            if self.problem is not None:
                raise TraceError(f"{self.path}: {self.problem}", hint="copy the file again")
            yield path
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _plain(self) -> Generator[bytes, None, None]:
        try:
            with self._location.open() as file:
                self.file_bytes = self._location.size_bytes() or 0
                head = file.read(8)
                for magic, (packing, hint) in _FOREIGN_MAGIC.items():
                    if head.startswith(magic):
                        raise TraceError(
                            f"{self.path}: {packing} files are not supported", hint=hint
                        )
                raw = self._raw(head, file)
                self._is_packed = head.startswith(_GZIP_MAGIC)
                chunks = self._gunzip(raw) if self._is_packed else raw
                for chunk in chunks:
                    if self.text_bytes == 0 and chunk.startswith(_UTF8_BOM):
                        # Replace the byte order mark with white space, so that byte offsets stay
                        # correct.
                        chunk = b"   " + chunk[len(_UTF8_BOM) :]
                    self.text_bytes += len(chunk)
                    allowed = FREE_INFLATED_BYTES + INFLATED_PER_BYTE * self.file_bytes_read
                    if self.text_bytes > allowed:
                        raise TraceError(
                            f"{self.path}: the first {self.file_bytes_read:,} bytes of gzip expand "
                            f"to more than {allowed >> 20:,} MiB, which no profiler writes",
                            hint="if you trust the file, unpack it first: gunzip FILE",
                        )
                    yield chunk
        except OSError as error:
            raise TraceError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    def _raw(self, head: bytes, file: BinaryIO) -> Iterator[bytes]:
        """Yield the bytes of the file, beginning with the head, which was already read."""
        chunk = head + file.read(CHUNK_BYTES - len(head))
        while chunk:
            self.file_bytes_read += len(chunk)
            if self._on_read is not None:
                self._on_read(self)
            yield chunk
            chunk = file.read(CHUNK_BYTES)

    def _gunzip(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Inflate all members of a gzip stream; zero padding between members is allowed."""
        member_start = 0  # file offset at which the current member begins
        member_text_bytes = 0
        inflater = isal_zlib.decompressobj(_GZIP_WINDOW_BITS)
        offset = 0
        for chunk in chunks:
            pending = chunk
            while pending:
                if inflater.eof:
                    stripped = pending.lstrip(b"\0")
                    if not stripped:
                        break
                    # One byte is enough: the inflater checks the rest, which may follow in the next
                    # chunk.
                    if not stripped.startswith(_GZIP_MAGIC[:1]):
                        self.problem = (
                            f"{len(stripped)} bytes or more of other data follow the gzip "
                            f"stream at file offset {offset + len(chunk) - len(stripped)}"
                        )
                        return
                    member_start = offset + len(chunk) - len(stripped)
                    member_text_bytes = 0
                    pending = stripped
                    inflater = isal_zlib.decompressobj(_GZIP_WINDOW_BITS)
                try:
                    text = inflater.decompress(pending, _INFLATE_LIMIT_BYTES)
                except (isal_zlib.error, zlib.error, EOFError) as error:  # type: ignore[misc]
                    self.problem = f"the gzip stream is damaged ({error})"
                    self.is_truncated = True
                    yield from self._salvage(member_start, member_text_bytes)
                    return
                member_text_bytes += len(text)
                if text:
                    yield text
                pending = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
                if not text and not inflater.eof and not pending:
                    break
            offset += len(chunk)
        if not inflater.eof:
            rest = inflater.flush()
            if rest:
                yield rest
            self.problem = "the gzip stream ends before its end mark"
            self.is_truncated = True

    def _salvage(self, member_start: int, skip_bytes: int) -> Iterator[bytes]:
        """Inflate a damaged member again, in small steps, up to the damaged byte.

        The fast inflater drops all output of the chunk in which it fails. zlib, fed byte by byte,
        loses almost nothing. If only the checksum is wrong, nothing is lost.
        """
        inflater = zlib.decompressobj(_GZIP_WINDOW_BITS)
        is_broken = False
        with self._location.open(member_start) as file:
            while not (inflater.eof or is_broken) and (piece := file.read(64 << 10)):
                before = inflater.copy()
                try:
                    texts = [inflater.decompress(piece)]
                except zlib.error:
                    texts = _inflate_bytewise(before, piece)
                    is_broken = True
                for text in texts:
                    if skip_bytes < len(text):
                        yield text[skip_bytes:]
                    skip_bytes = max(0, skip_bytes - len(text))


def _inflate_bytewise(inflater: zlib._Decompress, piece: bytes) -> list[bytes]:
    texts: list[bytes] = []
    for at in range(len(piece)):
        try:
            texts.append(inflater.decompress(piece[at : at + 1]))
        except zlib.error:
            break
    return texts
