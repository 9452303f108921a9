"""HTTP client for streaming servers, with a timestamp per packet.

An engine writes the tokens of a batch at once, so a thousand connections become readable at the
same time. A general-purpose client would wake a task per connection before reading the next one,
and its timestamps would be late. Here, each packet is first only timestamped and stored; packets
are parsed once all readable connections have been read.

Servers are not trusted: headers and bodies have size limits, and redirects are not followed.
"""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Protocol, cast

import httptools

from .dialect import plain

_LONGEST_HEAD_BYTES = 1 << 16
_MOST_HEADERS = 256
_MOST_INTERIM_ANSWERS = 16
MAX_TEXT_BYTES = 4096
TEXT_LENGTH = 200


class BrokenConnectionError(Exception):
    """The connection ended before the answer was complete."""


class NotHttpError(Exception):
    """The data is not HTTP, or exceeds a limit."""


def connection_problem(error: OSError | UnicodeError) -> str:
    """Return why a connection failed, in the system's words rather than asyncio's."""
    number = (error.errno or 0) if isinstance(error, OSError) else 0
    return os.strerror(number) if number > 0 else str(error) or type(error).__name__


class Receiver(Protocol):
    def head(self, status: int, headers: Mapping[str, str]) -> None: ...

    def body(self, at_ns: int, data: bytes) -> bool: ...


class HttpClient:
    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        self.host = parts.hostname or ""
        self.is_secure = parts.scheme == "https"
        self.port = parts.port or (443 if self.is_secure else 80)
        self._path = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json", **(headers or {})}

    async def ask(
        self,
        method: str,
        path: str,
        data: bytes = b"",
        *,
        limit_s: float,
        limit_bytes: int = MAX_TEXT_BYTES,
    ) -> BoundedAnswer:
        """Make a call with limits; return the answer, or its error as `problem`."""
        answer = BoundedAnswer(limit_bytes + 1)
        try:
            async with asyncio.timeout(limit_s):
                connection = await self.connect()
                await connection.exchange(self.request(method, path, data), answer)
        except TimeoutError:
            answer.problem = f"no complete answer within {limit_s:.3g} s"
        except BrokenConnectionError as error:
            answer.problem = plain(str(error), TEXT_LENGTH)
        except NotHttpError as error:
            answer.problem = f"not HTTP: {plain(str(error), TEXT_LENGTH)}"
        except (OSError, UnicodeError) as error:
            answer.problem = plain(connection_problem(error), TEXT_LENGTH)
        return answer

    async def connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: Connection(time.perf_counter_ns, loop),
            self.host,
            self.port,
            ssl=_tls_context() if self.is_secure else None,
        )
        return connection

    def request(self, method: str, path: str, data: bytes) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        lines = [f"{method} {self._path}{path} HTTP/1.1", f"Host: {host}:{self.port}"]
        lines += ["Accept: */*", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in self._headers.items()]
        lines += [f"Content-Length: {len(data)}", "", ""]
        return "\r\n".join(lines).encode("latin-1") + data


@functools.cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


class BoundedAnswer:
    def __init__(self, enough_bytes: int) -> None:
        self._enough_bytes = enough_bytes
        self.problem: str | None = None
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.data = bytearray()

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers

    def body(self, at_ns: int, data: bytes) -> bool:
        del at_ns
        self.data += data
        return len(self.data) < self._enough_bytes

    def text(self) -> str:
        return " ".join(self.data[:MAX_TEXT_BYTES].decode("utf-8", "replace").split())


class Connection(asyncio.Protocol):
    def __init__(self, clock: Callable[[], int], loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._packets: list[tuple[int, bytes]] = []
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._waiting_bytes = 0
        self._interim_count = 0
        self._has_head = self._has_length = self._is_whole = False
        self._pieces: list[bytes] = []
        self._over: asyncio.Future[None] = loop.create_future()

    @property
    def is_open(self) -> bool:
        """Whether the connection is open and the server has sent nothing."""
        return not self._over.done() and not self._packets

    async def exchange(self, request: bytes, receiver: Receiver) -> None:
        """Send a request, pass its answer to a receiver, and close the connection."""
        self._receiver = receiver
        try:
            if self._transport is not None:
                self._transport.write(request)
            await self._over
        finally:
            self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        if self._over.done() and not self._over.cancelled():
            self._over.exception()  # retrieved, so that asyncio does not warn
        self._over.cancel()

    # Methods that asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._packets:
            self._loop.call_soon(self._drain)
        self._packets.append((self._clock(), data))

    def connection_lost(self, exc: Exception | None) -> None:
        self._drain()
        if self._over.done():
            return
        if self._has_head and not self._has_length:
            # Without a content length, the end of the connection ends the answer.
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
            except Exception as error:  # noqa: BLE001 - raised where the answer is awaited
                self._over.set_exception(error)
                return
            if is_over:
                self._over.set_result(None)

    def _take(self, receiver: Receiver | None, at_ns: int, data: bytes) -> bool:
        if receiver is None:
            raise NotHttpError("the server sent data before the request")
        had_head = self._has_head
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # Ignore data after the complete answer.
            if not self._is_whole:
                shown = "" if had_head or self._waiting_bytes else f": it starts with {data[:40]!r}"
                raise NotHttpError(f"{error.__context__ or error}{shown}") from None
        pieces, self._pieces = self._pieces, []
        # The parser buffers incomplete headers, including trailers after the body.
        self._waiting_bytes = 0 if pieces else self._waiting_bytes + len(data)
        if self._waiting_bytes > _LONGEST_HEAD_BYTES:
            raise NotHttpError(f"its header is longer than {_LONGEST_HEAD_BYTES:,} bytes")
        if self._has_head and not had_head:
            receiver.head(self._parser.get_status_code(), self._headers)
        goes_on = not pieces or receiver.body(at_ns, b"".join(pieces))
        return self._is_whole or not goes_on

    # Methods that the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()
        if len(self._headers) > _MOST_HEADERS:
            raise ValueError(f"its head has more than {_MOST_HEADERS} headers")

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() >= 200:
            self._has_head = True
            is_chunked = self._headers.get("transfer-encoding", "").lower().endswith("chunked")
            self._has_length = is_chunked or "content-length" in self._headers
            return
        self._headers = {}
        self._interim_count += 1
        if self._interim_count > _MOST_INTERIM_ANSWERS:
            raise ValueError(f"{self._interim_count} interim responses without a final one")

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        self._is_whole = self._has_head
