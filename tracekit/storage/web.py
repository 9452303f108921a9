"""Files of web servers: one request for a whole file, taken up again where it broke off."""

from __future__ import annotations

import errno
import io
import re
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tracekit.storage.failures import BrokenOffError, SaidError, as_os_error, passes
from tracekit.storage.requests import TRIES, deadline, finish, pause
from tracekit.storage.url import Url
from tracekit.units import MB

PIECE_BYTES = 1 << 20
"""How much of a response is taken at once, at most."""

CONNECT_TIMEOUT_S = 20
READ_TIMEOUT_S = 60

PAGE_BYTES = 32 * MB
"""How long the page of a folder may be: some hundred thousand links."""

_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")
_OK, _PARTIAL, _NOT_SATISFIABLE = 200, 206, 416
# gzip or zlib, by the first bytes.
_ANY_WINDOW_BITS = 47
# Packed on the way, a file would have neither the length nor the offsets that it has in its place.
# Some servers pack all the same; what they send is inflated here, as the client would inflate a
# whole piece at once, however much that is.
_PLAIN = {"Accept-Encoding": "identity"}


def look_at(fs: Any, url: Url) -> dict[str, Any]:
    """Return what a server says of a file: ``size`` in bytes, ``ETag``, ``LastModified``.

    It is asked for the first byte alone, as signed URLs often allow nothing but GET.
    """
    response = _get(fs, url, {"Range": "bytes=0-0"}, deadline())
    try:
        status, headers = response.status, response.headers
        size: int | None = None
        placed = _RANGE.fullmatch(headers.get("Content-Range", ""))
        if status in (_PARTIAL, _NOT_SATISFIABLE) and placed is not None:
            size = None if placed[2] == "*" else int(placed[2])
        elif status == _OK and not _is_packed(headers):
            size = _length(headers)
        if status == _NOT_SATISFIABLE and size is None:
            size = 0
        return {
            "type": "file",
            "size": size,
            "ETag": headers.get("ETag"),
            "LastModified": headers.get("Last-Modified"),
            "mimetype": headers.get("Content-Type"),
        }
    finally:
        _drop(fs, response)


def read_range(fs: Any, url: Url, start: int, end: int) -> bytes:
    """Return the bytes of a file from `start` to before `end`, or to where it ends."""
    with WebStream(fs, url, start, end) as stream:
        return stream.readall()


def links(fs: Any, url: Url) -> list[Mapping[str, Any]]:
    """Return what the page of a folder links to below it, as a listing: ``name``, the whole URL.

    Raises:
        OSError: the page cannot be read, or is longer than `PAGE_BYTES`.
    """
    from fsspec.implementations.http import ex, ex2

    with WebStream(fs, url) as stream:
        page = io.BufferedReader(stream).read(PAGE_BYTES + 1)
        if not stream.mimetype.startswith("text/html"):
            return []
    if len(page) > PAGE_BYTES:
        raise OSError(errno.EFBIG, f"the page is longer than {PAGE_BYTES:,} bytes", url.shown)
    text = page.decode("utf-8", "ignore")
    folder = url.text.rstrip("/") + "/"
    parts = urlsplit(folder)
    names = set()
    for link in [*ex2.findall(text), *(found[2] for found in ex.findall(text))]:
        if link.startswith("/") and len(link) > 1:
            link = f"{parts.scheme}://{parts.netloc}{link}"
        if not link.startswith("http"):
            if link not in ("..", "../"):
                names.add(folder + link.lstrip("/"))
        elif link.partition("://")[2].startswith(folder.partition("://")[2]):
            names.add(link)
    return [{"name": name, "size": None} for name in names]


class WebStream(io.RawIOBase):
    """The bytes of a file from an offset on, read once from front to back.

    Where the connection breaks, it goes on by a range request; from a server that knows no ranges
    the file is taken again, and what has been handed out is passed over. A file that is not the
    same any more is an error, never a mixture.
    """

    def __init__(self, fs: Any, url: Url, start: int = 0, end: int | None = None) -> None:
        super().__init__()
        self._fs = fs
        self._url = url
        self._at = start
        self._end = end
        self._response: Any = None
        self._seen: tuple[object, ...] | None = None
        self._total: int | None = None
        self._has_ranges = True
        self._deadline = deadline()
        self._inflater: Any = None
        self._packed = b""
        self.mimetype = "text/html"

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def tell(self) -> int:
        """Return the offset in the file of the next byte."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as bytes come at once; 0 at the end.

        Raises:
            OSError: nothing more comes, however often it is asked for.
        """
        view = memoryview(buffer).cast("B")
        room = min(len(view), PIECE_BYTES)
        if self._end is not None:
            room = min(room, self._end - self._at)
        if room <= 0:
            return 0
        failed = 0
        while True:
            try:
                piece = self._piece(room)
            except Exception as error:  # noqa: BLE001 (the libraries raise whatever they like)
                failed += 1
                self._hang_up()
                if failed == TRIES or not passes(error):
                    raise as_os_error(error, self._url) from None
                pause(failed)
                continue
            view[: len(piece)] = piece
            self._at += len(piece)
            return len(piece)

    def _piece(self, room: int) -> bytes:
        if self._response is None:
            self._response = self._connect()
            if self._response is None:
                return b""
        piece = self._received(self._response, room)
        if not piece and self._total is not None and self._at < self._total:
            raise BrokenOffError("was cut off")
        return piece

    def _received(self, response: Any, room: int) -> bytes:
        """Return the next bytes of the file, inflated where the server packed them."""
        while True:
            if self._inflater is None:
                return self._taken(response, room)
            if self._inflater.eof and (self._packed or self._inflater.unused_data):
                # Another member follows.
                self._packed = self._inflater.unused_data or self._packed
                self._inflater = zlib.decompressobj(_ANY_WINDOW_BITS)
            packed = self._packed or self._taken(response, PIECE_BYTES)
            if not packed and self._inflater.eof:
                return b""
            try:
                piece = bytes(self._inflater.decompress(packed, room))
            except zlib.error:
                raise SaidError("the server packs it, and what it sends is damaged") from None
            self._packed = self._inflater.unconsumed_tail
            if piece:
                return piece
            if not packed and not self._inflater.eof:
                raise BrokenOffError("was cut off")

    def _taken(self, response: Any, room: int) -> bytes:
        piece: bytes = finish(
            *(self._fs, response.content.read(room), self._deadline),
            *(self._url, self._at, self._total),
        )
        return piece

    def _connect(self) -> Any:
        """Return a response that goes on where the last one ended; None at the end of the file."""
        headers = {}
        if self._at and self._has_ranges:
            last = "" if self._end is None else str(self._end - 1)
            headers["Range"] = f"bytes={self._at}-{last}"
        response = _get(self._fs, self._url, headers, self._deadline)
        try:
            placed = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
            is_partial = response.status == _PARTIAL and placed is not None
            total = None
            if placed is not None:
                total = None if placed[2] == "*" else int(placed[2])
            elif not _is_packed(response.headers):
                total = _length(response.headers)
            if response.status == _NOT_SATISFIABLE:
                if total is not None and self._at > total:
                    raise SaidError("is shorter than it was")
                _drop(self._fs, response)
                return None
            if is_partial and _is_packed(response.headers) and self._has_ranges:
                # The range is one of what is packed.
                self._has_ranges = False
                _drop(self._fs, response)
                return self._connect()
            seen = (response.headers.get("ETag"), response.headers.get("Last-Modified"), total)
            if self._seen is not None and self._seen != seen:
                raise SaidError("changed while it was read")
            self._seen, self._total = seen, total
            self.mimetype = response.headers.get("Content-Type", self.mimetype)
            begin = int(placed[1] or 0) if is_partial and placed is not None else 0
            self._inflater, self._packed = None, b""
            if _is_packed(response.headers):
                packing = response.headers["Content-Encoding"].strip().lower()
                if packing not in ("gzip", "x-gzip", "deflate"):
                    raise SaidError("the server packs it in a way that is not read")
                self._has_ranges = False
                self._inflater = zlib.decompressobj(_ANY_WINDOW_BITS)
            if begin > self._at:
                raise SaidError("the server sends another range than it was asked for")
            self._pass_over(response, self._at - begin)
        except BaseException:
            _drop(self._fs, response)
            raise
        return response

    def _pass_over(self, response: Any, count: int) -> None:
        while count:
            piece = self._received(response, min(count, PIECE_BYTES))
            if not piece:
                raise BrokenOffError("was cut off")
            count -= len(piece)

    def _hang_up(self) -> None:
        if self._response is not None:
            _drop(self._fs, self._response)
            self._response = None

    def close(self) -> None:
        """Let the connection go."""
        if not self.closed:
            self._hang_up()
        super().close()


def _get(fs: Any, url: Url, headers: dict[str, str], until: float) -> Any:
    """Begin a request; return its response, whose status is one of those that are understood."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(
        total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=READ_TIMEOUT_S
    )
    options = dict(fs.kwargs)
    headers = {**options.pop("headers", {}), **_PLAIN, **headers}

    async def get() -> Any:
        session = await fs.set_session()
        return await session.get(
            fs.encode_url(url.text),
            **{**options, "headers": headers, "timeout": timeout, "auto_decompress": False},
        )

    response = finish(fs, get(), until, url)
    if response.status not in (_OK, _PARTIAL, _NOT_SATISFIABLE):
        try:
            response.raise_for_status()
            raise SaidError(f"the server answers {response.status}")
        finally:
            _drop(fs, response)
    return response


def _drop(fs: Any, response: Any) -> None:
    """Let a response go, on the thread that its connection belongs to."""
    fs.loop.call_soon_threadsafe(response.close)


def _is_packed(headers: Any) -> bool:
    return headers.get("Content-Encoding", "identity") not in ("", "identity")


def _length(headers: Any) -> int | None:
    text = headers.get("Content-Length", "")
    return int(text) if text.isdecimal() else None
