"""The client of one server: calls whose answers are kept as far as is wanted, and connections."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import NamedTuple

from .exchange import (
    Address,
    Connection,
    NotHttpError,
    Receiver,
    connect,
    length_line,
    request_head,
)

_KEPT_TEXT_BYTES = 4096


class Answer(NamedTuple):
    """An answer as a whole; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Talks to one server.

    Args:
        url: the server, without a path.
        headers: sent with every request.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.address = Address.of(url)
        self._headers = {"Content-Type": "application/json", **(headers or {})}

    async def fetch(self, method: str, path: str, body: object) -> tuple[int, str]:
        """Make a small call and return status and the beginning of the answer's text.

        Raises:
            OSError: no connection can be made.
            BrokenConnectionError, NotHttpError: as `Connection.exchange`.
        """
        text = TextReceiver()
        await self._exchange(method, path, body, text)
        return text.status, text.text()

    async def call(self, method: str, path: str, body: object, *, limit_bytes: int) -> Answer:
        """Make a call and return all of its answer.

        Args:
            method: `GET` or `POST`.
            path: what is asked for.
            body: sent as JSON, unless it is None.
            limit_bytes: an answer whose body is longer is refused.

        Raises:
            OSError: no connection can be made.
            BrokenConnectionError: the answer is not whole.
            NotHttpError: it is no answer, or too long a one.
        """
        whole = _WholeReceiver(limit_bytes)
        await self._exchange(method, path, body, whole)
        if whole.size_bytes > limit_bytes:
            raise NotHttpError(f"the answer has more than {limit_bytes:,} bytes")
        return Answer(whole.status, whole.headers, b"".join(whole.pieces))

    async def connect(self) -> Connection:
        """Open a connection whose packets are stamped by `time.perf_counter_ns`.

        Raises:
            OSError: there is none.
        """
        return await connect(self.address, time.perf_counter_ns)

    def head(self, method: str, path: str) -> bytes:
        """Return the head of a request but for its last header, which `length_line` makes."""
        return request_head(self.address, method, path, self._headers)

    async def _exchange(self, method: str, path: str, body: object, receiver: Receiver) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        connection = await self.connect()
        await connection.exchange(self.head(method, path) + length_line(data), data, receiver)


class TextReceiver:
    """Keeps the status and the beginning of a text."""

    def __init__(self) -> None:
        self.status = 0
        self._data = b""

    def head(self, status: int, headers: Mapping[str, str]) -> bool:
        """Take the status."""
        del headers
        self.status = status
        return True

    def body(self, at_ns: int, data: bytes) -> bool:
        """Take a piece, until there is enough."""
        del at_ns
        self._data += data
        return len(self._data) < _KEPT_TEXT_BYTES

    def text(self) -> str:
        """Return what has come, in one line."""
        text = self._data[:_KEPT_TEXT_BYTES].decode("utf-8", "replace")
        return " ".join(text.split())


class _WholeReceiver:
    """Keeps an answer, until it is longer than it may be."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.pieces: list[bytes] = []
        self.size_bytes = 0

    def head(self, status: int, headers: Mapping[str, str]) -> bool:
        self.status = status
        self.headers = headers
        return True

    def body(self, at_ns: int, data: bytes) -> bool:
        del at_ns
        self.pieces.append(data)
        self.size_bytes += len(data)
        return self.size_bytes <= self._limit_bytes
