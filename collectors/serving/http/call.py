"""Single calls over HTTP, and what keeps their answers: as much as is wanted, and no more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from .exchange import Address, NotHttpError, Receiver, connect, length_line, request_head

_KEPT_TEXT_BYTES = 4096


class Answer(NamedTuple):
    """An answer as a whole; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def fetch(
    address: Address, method: str, path: str, body: object, headers: Mapping[str, str]
) -> tuple[int, str]:
    """Make a small call and return status and the beginning of the answer's text.

    Raises:
        OSError: no connection can be made.
        BrokenConnectionError, NotHttpError: as `Connection.exchange`.
    """
    text = TextReceiver()
    await _exchange(address, method, path, body, headers, text)
    return text.status, text.text()


async def call(
    address: Address,
    method: str,
    path: str,
    body: object,
    headers: Mapping[str, str],
    *,
    limit_bytes: int,
) -> Answer:
    """Make a call and return all of its answer.

    Args:
        address: the server.
        method: `GET` or `POST`.
        path: what is asked for.
        body: sent as JSON, unless it is None.
        headers: sent with it.
        limit_bytes: an answer whose body is longer is refused.

    Raises:
        OSError: no connection can be made.
        BrokenConnectionError: the answer is not whole.
        NotHttpError: it is no answer, or too long a one.
    """
    whole = _WholeReceiver(limit_bytes)
    await _exchange(address, method, path, body, headers, whole)
    if whole.size_bytes > limit_bytes:
        raise NotHttpError(f"the answer has more than {limit_bytes:,} bytes")
    return Answer(whole.status, whole.headers, b"".join(whole.pieces))


async def _exchange(
    address: Address,
    method: str,
    path: str,
    body: object,
    headers: Mapping[str, str],
    receiver: Receiver,
) -> None:
    data = b"" if body is None else json.dumps(body).encode()
    head = request_head(address, method, path, headers) + length_line(data)
    connection = await connect(address, lambda: 0)
    await connection.exchange(head, data, receiver)


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
