"""HTTP client for streaming servers, with a timestamp per packet.

An engine writes the tokens of a batch at once, so a thousand connections become readable at the
same time. Packets are timestamped when they are read. They are parsed later, in short time slices
between reads. `evaluations/benchmarks/README.md` compares this with general-purpose clients.

Servers are not trusted: headers and bodies have size limits, and redirects are not followed.
"""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
import time
import urllib.parse
from collections import deque
from collections.abc import Mapping
from typing import cast

import httptools

from ..records import Outcome
from .dialect import plain

_LONGEST_HEAD_BYTES = 1 << 16
_SLICE_NS = 200_000
_MAX_UNPARSED_BYTES = 1 << 16
MAX_TEXT_BYTES = 4096
TEXT_LENGTH = 200


class AnswerError(Exception):
    """An exchange without a complete answer; the message is the reason."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


class Answer:
    """Status, headers, and the first bytes of an answer; `deadline` is its time limit."""

    deadline: asyncio.Timeout

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
        """Receive a part of the answer; return False if the rest is not needed."""
        del at_ns
        self.data += data
        return len(self.data) < self._enough_bytes

    def text(self) -> str:
        return " ".join(self.data[:MAX_TEXT_BYTES].decode("utf-8", "replace").split())


class HttpClient:
    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        self.host = parts.hostname or ""
        self.is_secure = parts.scheme == "https"
        self.port = parts.port or (443 if self.is_secure else 80)
        self._path = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unparsed: deque[Connection] = deque()

    async def ask(
        self, method: str, path: str, data: bytes, limit_s: float, limit_bytes: int = MAX_TEXT_BYTES
    ) -> Answer:
        """Make a call with limits; return the answer, or its error as `problem`."""
        answer = Answer(limit_bytes + 1)
        try:
            await self.exchange(self.request(method, path, data), answer, limit_s)
        except AnswerError as error:
            answer.problem = plain(str(error), TEXT_LENGTH)
        return answer

    async def exchange(
        self, request: bytes, answer: Answer, limit_s: float, connection: Connection | None = None
    ) -> None:
        """Send a request and receive its answer; raise `AnswerError` if it is not complete."""
        answer.deadline = asyncio.timeout(limit_s)
        try:
            async with answer.deadline:
                if connection is not None and not connection.is_open:
                    connection.close()
                    connection = None
                connection = connection or await self.connect()
                await connection.exchange(request, answer)
        except TimeoutError:
            raise AnswerError("timeout", f"no complete answer within {limit_s:.3g} s") from None
        except (OSError, UnicodeError) as error:
            # Use the system's text instead of asyncio's, except for TLS errors, which have other
            # numbers.
            number = 0 if isinstance(error, ssl.SSLError | UnicodeError) else error.errno or 0
            reason = os.strerror(number) if number > 0 else str(error) or type(error).__name__
            raise AnswerError("refused", reason) from None

    async def connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._unparsed = loop, deque()
        _, connection = await loop.create_connection(
            lambda: Connection(loop, self._unparsed),
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


class Connection(asyncio.BufferedProtocol):
    """One request. `unparsed` are the connections of a client with unparsed packets."""

    # All connections share a buffer, because allocating one per packet would take longer than
    # reading.
    _buffer = memoryview(bytearray(1 << 16))
    _transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, unparsed: deque[Connection]) -> None:
        self._loop = loop
        self._unparsed = unparsed
        self._answer: Answer | None = None
        # The item after the last packet is the reason for the end of the connection.
        self._packets: list[tuple[int, bytes | Exception | None]] = []
        self._unparsed_bytes = 0
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._waiting_bytes = 0
        self._has_head = self._has_length = self._is_whole = False
        self._pieces: list[bytes] = []
        self._over: asyncio.Future[None] = loop.create_future()

    @property
    def is_open(self) -> bool:
        """Whether the connection is open and the server has sent nothing."""
        return not self._packets and not self._over.done()

    async def exchange(self, request: bytes, answer: Answer) -> None:
        """Send a request, receive its answer, and close the connection."""
        self._answer = answer
        try:
            self._transport.write(request)
            await self._over
        finally:
            self.close()

    def close(self) -> None:
        self._transport.abort()
        if self._over.done() and not self._over.cancelled():
            self._over.exception()  # retrieved, so that asyncio does not warn
        self._over.cancel()

    # Methods that asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._add_packet(bytes(self._buffer[:nbytes]))
        self._unparsed_bytes += nbytes
        if self._unparsed_bytes > _MAX_UNPARSED_BYTES:
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._add_packet(exc)

    def _add_packet(self, packet: bytes | Exception | None) -> None:
        at_ns = time.perf_counter_ns()
        if not self._packets:
            if not self._unparsed:
                self._loop.call_soon(_parse, self._loop, self._unparsed)
            self._unparsed.append(self)
        self._packets.append((at_ns, packet))

    def parse(self) -> None:
        packets, self._packets = self._packets, []
        if self._unparsed_bytes > _MAX_UNPARSED_BYTES:
            self._transport.resume_reading()
        self._unparsed_bytes = 0
        for at_ns, packet in packets:
            if self._over.done():
                return
            try:
                if not isinstance(packet, bytes):
                    self._end(packet)
                elif not self._take(at_ns, packet):
                    continue
            except Exception as error:  # noqa: BLE001 - raised where the answer is awaited
                self._over.set_exception(error)
            else:
                self._over.set_result(None)

    def _end(self, error: Exception | None) -> None:
        # Without a content length, the end of the connection ends the answer.
        if self._has_length or not self._has_head:
            reason = getattr(error, "strerror", None) or str(error or "") or "connection closed"
            raise AnswerError("broken_stream", reason)

    def _take(self, at_ns: int, data: bytes) -> bool:
        if self._answer is None:
            raise _not_http("the server sent data before the request")
        had_head = self._has_head
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # Ignore data after the complete answer.
            if not self._is_whole:
                shown = "" if had_head or self._waiting_bytes else f": it starts with {data[:40]!r}"
                raise _not_http(f"{error.__context__ or error}{shown}") from None
        pieces, self._pieces = self._pieces, []
        # The parser buffers incomplete headers, interim responses, and trailers.
        self._waiting_bytes = 0 if pieces else self._waiting_bytes + len(data)
        if self._waiting_bytes > _LONGEST_HEAD_BYTES:
            raise _not_http(f"its header is longer than {_LONGEST_HEAD_BYTES:,} bytes")
        if self._has_head and not had_head:
            self._answer.head(self._parser.get_status_code(), self._headers)
        goes_on = not pieces or self._answer.body(at_ns, b"".join(pieces))
        return self._is_whole or not goes_on

    # Methods that the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        self._has_head = self._parser.get_status_code() >= 200
        if not self._has_head:  # an interim response
            self._headers = {}
        is_chunked = self._headers.get("transfer-encoding", "").lower().endswith("chunked")
        self._has_length = is_chunked or "content-length" in self._headers

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        self._is_whole = self._has_head


def _not_http(reason: str) -> AnswerError:
    return AnswerError("bad_response", f"not HTTP: {plain(reason, TEXT_LENGTH)}")


def _parse(loop: asyncio.AbstractEventLoop, unparsed: deque[Connection]) -> None:
    """Parse packets for a time slice, so that others are read in time."""
    end_ns = time.perf_counter_ns() + _SLICE_NS
    while unparsed:
        unparsed.popleft().parse()
        if unparsed and time.perf_counter_ns() > end_ns:
            loop.call_soon(_parse, loop, unparsed)
            return
