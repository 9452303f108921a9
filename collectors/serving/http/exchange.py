"""One HTTP/1.1 request and its answer on a connection of its own, timed packet by packet.

An engine writes the tokens of a whole batch at once, so that a thousand connections become readable
in the same instant. A general client wakes a task for each before the next is read, and by then its
clock is late. Here every packet is only stamped and put aside when it is read; what is in it is
looked at once all connections that were readable have been read.

A server is not trusted: heads, lines and bodies that are kept are bounded, redirects are not
followed, and whatever is no HTTP ends as `NotHttpError`. Time is bounded by whoever calls.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import ssl
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

_LONGEST_HEAD_BYTES = 1 << 16
_MOST_HEADERS = 256
_MOST_INTERIM_ANSWERS = 16
_LONGEST_CHUNK_LINE_BYTES = 4096
_STATUS = re.compile(rb"HTTP/1\.\d +(\d{3})(?: .*)?", re.DOTALL)
_LENGTH = re.compile(r"\d{1,18}", re.ASCII)
_CHUNK_LENGTH = re.compile(rb"[0-9A-Fa-f]{1,15}")
_CHUNK_END = b"\r\n"
_WITHOUT_BODY = (204, 304)


class BrokenConnectionError(Exception):
    """The connection ended before the answer did."""


class NotHttpError(Exception):
    """What came is no HTTP, or more of it than anybody needs."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is: what a URL without a path says."""

    host: str
    port: int
    is_secure: bool
    path: str

    @classmethod
    def of(cls, url: str) -> Address:
        """Take a URL apart."""
        parts = urllib.parse.urlsplit(url)
        is_secure = parts.scheme == "https"
        port = parts.port or (443 if is_secure else 80)
        return cls(parts.hostname or "", port, is_secure, parts.path.rstrip("/"))


class Receiver(Protocol):
    """Takes an answer as it comes; False ends the exchange at once."""

    def head(self, status: int, headers: Mapping[str, str]) -> bool:
        """Take status and headers; their names are in lower case."""
        ...

    def body(self, at_ns: int, data: bytes) -> bool:
        """Take a piece of the body that was read at an instant."""
        ...


async def connect(address: Address, clock: Callable[[], int]) -> Connection:
    """Open a connection.

    Args:
        address: the server.
        clock: stamps packets.

    Raises:
        OSError: there is none.
    """
    loop = asyncio.get_running_loop()
    context = _tls_context() if address.is_secure else None
    _, connection = await loop.create_connection(
        lambda: Connection(clock, loop), address.host, address.port, ssl=context
    )
    return connection


def connection_problem(error: OSError | UnicodeError) -> str:
    """Return why no connection could be made, in words.

    asyncio words refusals itself, with the address; names that do not resolve have negative
    numbers.
    """
    number = (error.errno or 0) if isinstance(error, OSError) else 0
    return os.strerror(number) if number > 0 else str(error) or type(error).__name__


@functools.cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def request_head(address: Address, method: str, path: str, headers: Mapping[str, str]) -> bytes:
    """Return the head of a request but for its last header, which `length_line` makes."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    lines = [f"{method} {address.path}{path} HTTP/1.1", f"Host: {host}:{address.port}"]
    lines += ["Accept: */*", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n").encode("latin-1")


def length_line(data: bytes) -> bytes:
    """Return the header that ends a head."""
    return b"Content-Length: %d\r\n\r\n" % len(data)


class Connection(asyncio.Protocol):
    """A connection for one request: packets that wait, the head, and how the body is framed."""

    def __init__(self, clock: Callable[[], int], loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._packets: list[tuple[int, bytes]] = []
        self._rest = b""
        self._has_head = False
        self._interim_count = 0
        self._is_chunked = False
        self._chunk_left = 0
        self._left: int | None = None
        self._over: asyncio.Future[None] = loop.create_future()

    @property
    def is_open(self) -> bool:
        """Whether a request may be sent: the server has neither closed it nor spoken first."""
        return not self._over.done() and not self._packets

    async def exchange(self, head: bytes, data: bytes, receiver: Receiver) -> None:
        """Send a request and give its answer to a receiver; the connection is closed afterwards.

        Args:
            head: as `request_head` and `length_line` make it.
            data: the body.
            receiver: takes the answer.

        Raises:
            BrokenConnectionError: the answer is not whole.
            NotHttpError: it is no answer.
        """
        self._receiver = receiver
        try:
            if self._transport is not None:
                self._transport.write(head + data)
            await self._over
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection, whatever is under way on it."""
        if self._transport is not None:
            self._transport.abort()
        if self._over.done() and not self._over.cancelled():
            self._over.exception()  # looked at, so that nobody warns of it
        self._over.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what writes."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Stamp a packet and put it aside."""
        if not self._packets:
            self._loop.call_soon(self._drain)
        self._packets.append((self._clock(), data))

    def connection_lost(self, exc: Exception | None) -> None:
        """Look at what came last; then the answer is whole, or it is broken."""
        self._drain()
        if self._over.done():
            return
        if self._has_head and not self._is_chunked and self._left is None:
            # Framed by the end of the connection.
            self._over.set_result(None)
        else:
            reason = getattr(exc, "strerror", None) or str(exc or "") or "connection closed"
            self._over.set_exception(BrokenConnectionError(reason))

    def _drain(self) -> None:
        packets, self._packets = self._packets, []
        for at_ns, data in packets:
            if self._over.done():
                return
            try:
                is_over = self._take(self._receiver, at_ns, data)
            except ValueError as error:
                self._over.set_exception(NotHttpError(str(error)))
                return
            except Exception as error:  # noqa: BLE001 - a bug: it is raised where the answer is awaited
                self._over.set_exception(error)
                return
            if is_over:
                self._over.set_result(None)

    def _take(self, receiver: Receiver | None, at_ns: int, data: bytes) -> bool:
        """Take a packet in; True if the answer is over."""
        if receiver is None:
            raise ValueError("the server spoke first")
        data = self._rest + data if self._rest else data
        self._rest = b""
        while not self._has_head:
            head, end, after = data.partition(b"\r\n\r\n")
            if not b"HTTP/".startswith(data[:5]):
                raise ValueError(f"it begins with {data[:40]!r}")
            if len(head) > _LONGEST_HEAD_BYTES:
                raise ValueError(f"its head has more than {_LONGEST_HEAD_BYTES:,} bytes")
            if not end:
                self._rest = data
                return False
            data = after
            if not self._take_head(receiver, head):
                return True
        if self._is_chunked:
            return self._take_chunks(receiver, at_ns, data)
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        goes_on = receiver.body(at_ns, data) if data else True
        return not goes_on or self._left == 0

    def _take_head(self, receiver: Receiver, head: bytes) -> bool:
        first, _, rest = head.partition(b"\r\n")
        found = _STATUS.fullmatch(first)
        if found is None:
            raise ValueError(f"it begins with {first[:40]!r}")
        status = int(found[1])
        if status < 200:  # 100 Continue and the like: the answer follows
            self._interim_count += 1
            if self._interim_count > _MOST_INTERIM_ANSWERS:
                raise ValueError(f"{self._interim_count} heads, and none of an answer")
            return True
        headers: dict[str, str] = {}
        lines = rest.decode("latin-1").split("\r\n") if rest else []
        if len(lines) > _MOST_HEADERS:
            raise ValueError(f"its head has more than {_MOST_HEADERS} headers")
        for line in lines:
            name, _, value = line.partition(":")
            name, value = name.strip().lower(), value.strip()
            if name == "content-length" and headers.get(name, value) != value:
                raise ValueError("it says two lengths")
            headers[name] = value
        self._has_head = True
        self._is_chunked = headers.get("transfer-encoding", "").lower().endswith("chunked")
        if status in _WITHOUT_BODY:
            self._is_chunked, self._left = False, 0
        elif not self._is_chunked and "content-length" in headers:
            if not _LENGTH.fullmatch(headers["content-length"]):
                raise ValueError(f"its length is {headers['content-length'][:40]!r}")
            self._left = int(headers["content-length"])
        return receiver.head(status, headers)

    def _take_chunks(self, receiver: Receiver, at_ns: int, data: bytes) -> bool:
        """Take what has come of the chunks: nothing of them is kept here but a cut size line."""
        begin, size = 0, len(data)
        pieces = []
        is_over = False
        while begin < size:
            if self._chunk_left > len(_CHUNK_END):
                end = min(size, begin + self._chunk_left - len(_CHUNK_END))
                pieces.append(data[begin:end])
                self._chunk_left -= end - begin
                begin = end
            elif self._chunk_left:
                expected = _CHUNK_END[-self._chunk_left :][: size - begin]
                if not data.startswith(expected, begin):
                    raise ValueError("a chunk is longer than it said")
                self._chunk_left -= len(expected)
                begin += len(expected)
            else:
                end = data.find(b"\r\n", begin)
                if (size if end < 0 else end) - begin > _LONGEST_CHUNK_LINE_BYTES:
                    raise ValueError("a chunk's length has no end")
                if end < 0:
                    self._rest = data[begin:]
                    break
                text = data[begin:end].partition(b";")[0].strip()
                if not _CHUNK_LENGTH.fullmatch(text):
                    raise ValueError(f"a chunk has the length {text[:40]!r}")
                begin = end + len(_CHUNK_END)
                length = int(text, 16)
                if length == 0:
                    is_over = True
                    break
                self._chunk_left = length + len(_CHUNK_END)
        if pieces:
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            return not receiver.body(at_ns, body) or is_over
        return is_over
