"""Streams of files at URLs, with progress reports."""

from __future__ import annotations

import errno
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tracekit.storage.stores import as_os_error, beyond_limit, interruptibly, limit_s
from tracekit.storage.url import Url

MAX_FAILURES = 3
"""Number of consecutive failures at which reading stops. obstore also retries each request."""

_REPORT_S = 0.5

_report: Callable[[Came], None] | None = None


class Came(NamedTuple):
    """Bytes of a file at a URL received so far, and the total if known."""

    name: str
    count_bytes: int
    total_bytes: int | None


@contextmanager
def progress_reports(report: Callable[[Came], None]) -> Iterator[None]:
    """Call a function twice a second while this process reads files at URLs."""
    global _report
    before, _report = _report, report
    try:
        yield
    finally:
        _report = before


class Response(NamedTuple):
    """Bytes of a file from an offset onward, and the metadata that the server sent."""

    chunks: Iterator[bytes]
    size_bytes: int | None
    identity: str | None
    content_type: str
    close: Callable[[], None] = lambda: None


def without_start(chunks: Iterator[bytes], count: int) -> Iterator[bytes]:
    for chunk in chunks:
        if len(chunk) > count:
            yield chunk[count:]
        count = max(0, count - len(chunk))


class RemoteStream(io.RawIOBase):
    """The bytes of a file from an offset onward, read once from front to back.

    After a failure, reading resumes at the next byte. If the file has changed, an error is raised.
    """

    def __init__(self, url: Url, start: int, connect: Callable[[int], Response]) -> None:
        super().__init__()
        self._url = url
        self._connect = connect
        self._at = start
        self._until = time.monotonic() + limit_s()
        self._reported = 0.0
        self._chunk = memoryview(b"")
        self._failures = 0
        self._is_waiting = False
        self.response = connect(start)

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        while not self._chunk:
            chunk = self._next()
            if chunk is None:
                return 0
            self._chunk = memoryview(chunk)
        count = min(len(view), len(self._chunk))
        view[:count] = self._chunk[:count]
        self._chunk = self._chunk[count:]
        self._at += count
        self._check_time()
        return count

    def _next(self) -> bytes | None:
        """Return the next bytes, or None at the end. Resume after a failure."""
        while True:
            self._is_waiting = True
            try:
                chunk = interruptibly(lambda: next(self.response.chunks, None))
            except Exception as error:  # noqa: BLE001 (of obstore and http.client)
                self._is_waiting = False
                self._check_time()
                self._resume(error)
                continue
            self._is_waiting = False
            self._failures = 0
            return chunk

    def _resume(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == MAX_FAILURES:
            raise as_os_error(error, self._url) from None
        before = self.response
        before.close()
        self.response = self._connect(self._at)
        if self.response[1:3] != before[1:3]:
            raise OSError(errno.EIO, "changed while being read", self._url.shown)

    def close(self) -> None:
        """Close the connection, unless a thread still uses it after Ctrl-C."""
        if not self._is_waiting:
            self.response.close()
        super().close()

    def _check_time(self) -> None:
        now = time.monotonic()
        if now >= self._until:
            raise beyond_limit(self._url.shown)
        if _report is not None and now - self._reported >= _REPORT_S:
            self._reported = now
            _report(Came(self._url.shown, self._at, self.response.size_bytes))
