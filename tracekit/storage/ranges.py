"""Objects of a store as a stream: ranges, some read ahead of who takes them."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

RANGE_BYTES = 4 << 20
"""How much one request brings: long against what a request costs, small in memory."""

AHEAD = 3
"""How many requests are under way at once: their latencies overlap."""


class RangeStream(io.RawIOBase):
    """The bytes of an object from an offset on, read once from front to back.

    Args:
        read_range: returns the bytes from an offset to before another; every one of them.
        size_bytes: of the whole object.
        start: where to begin, bytes.
        check: called when the last of several ranges has come; raises if the object changed.
    """

    def __init__(
        self,
        read_range: Callable[[int, int], bytes],
        size_bytes: int,
        start: int,
        check: Callable[[], None],
    ) -> None:
        super().__init__()
        self._read_range = read_range
        self._check = check
        self._at = self._next = min(start, size_bytes)
        self._size_bytes = size_bytes
        self._is_split = size_bytes - self._next > RANGE_BYTES
        self._waiting: deque[Future[bytes]] = deque()
        self._piece = memoryview(b"")
        self._pool: ThreadPoolExecutor | None = None

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def tell(self) -> int:
        """Return the offset in the object of the next byte."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with what there is of the range that was read last; 0 at the end.

        Raises:
            OSError: a range cannot be read.
        """
        view = memoryview(buffer).cast("B")
        if not self._piece:
            self._piece = memoryview(self._take())
        count = min(len(view), len(self._piece))
        view[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        self._at += count
        return count

    def _take(self) -> bytes:
        if not self._is_split:
            start, self._next = self._next, self._size_bytes
            return self._read_range(start, self._size_bytes) if start < self._size_bytes else b""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(AHEAD, thread_name_prefix="tracekit-range")
        while self._next < self._size_bytes and len(self._waiting) < AHEAD:
            end = min(self._next + RANGE_BYTES, self._size_bytes)
            self._waiting.append(self._pool.submit(self._read_range, self._next, end))
            self._next = end
        if not self._waiting:
            return b""
        piece = self._waiting.popleft().result()
        if not self._waiting and self._next >= self._size_bytes:
            self._check()
        return piece

    def close(self) -> None:
        """Stop; requests that are under way are not waited for."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
        self._waiting.clear()
        super().close()
