"""Requests to places behind URLs: how often one is tried, how long a file may take."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from tracekit.errors import TracekitError
from tracekit.storage.failures import SaidError, as_os_error, passes
from tracekit.storage.url import Url

LIMIT_S = 3600.0
"""How long one file may take from the first request to its end, seconds, however it comes.
TRACEKIT_URL_LIMIT_S overrides it."""

_TELL_S = 0.5

_tell: Callable[[Came], None] | None = None


class Came(NamedTuple):
    """How much of a file behind a URL has come so far; the total where that is known."""

    name: str
    count_bytes: int
    total_bytes: int | None


@contextmanager
def telling(tell: Callable[[Came], None]) -> Iterator[None]:
    """Have a function of this process called twice a second while files behind URLs are read."""
    global _tell
    before, _tell = _tell, tell
    try:
        yield
    finally:
        _tell = before


def limit_s() -> float:
    """Return how long a file may take, seconds."""
    given = os.environ.get("TRACEKIT_URL_LIMIT_S", "")
    return float(given) if given.isdecimal() else LIMIT_S


def deadline() -> float:
    """Return until when a file that is begun now may take, on the monotonic clock."""
    return time.monotonic() + limit_s()


def finish(
    fs: Any, work: Any, until: float, url: Url, count_bytes: int = 0, total_bytes: int | None = None
) -> Any:
    """Run a coroutine where the session of a file system lives, until a time at the latest.

    Raises:
        SaidError: the time is over.
    """
    future = asyncio.run_coroutine_threadsafe(work, fs.loop)
    while (left_s := until - time.monotonic()) > 0:
        wait([future], min(left_s, _TELL_S))
        if _tell is not None:
            _tell(Came(url.shown, count_bytes, total_bytes))
        if future.done():
            return future.result()
    future.cancel()
    raise SaidError(f"not all of it came within {limit_s():g} s; TRACEKIT_URL_LIMIT_S allows more")


T = TypeVar("T")

TRIES = 6
"""How often a request is made in all; the waits between add up to about eight seconds."""

FIRST_WAIT_S = 0.25


def pause(failed: int) -> None:
    """Wait after so many failures in a row; not all who wait come back at the same moment."""
    time.sleep(FIRST_WAIT_S * 2 ** (failed - 1) * random.uniform(0.75, 1.25))


def attempt(request: Callable[[], T], url: Url) -> T:
    """Make a request, again where that may help."""
    for failed in range(1, TRIES + 1):
        try:
            return request()
        except TracekitError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.filename == url.shown:
                # It is in our words: what is asked could not be made.
                raise
            if failed == TRIES or not passes(error):
                # Without its cause, which may hold headers and signatures.
                raise as_os_error(error, url) from None
        pause(failed)
    raise AssertionError("unreachable")
