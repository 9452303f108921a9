"""Handles SIGTERM and SIGHUP like Ctrl-C, for an orderly shutdown.

Background jobs of scripts ignore SIGINT, and processes under `nohup` ignore SIGHUP; ignored signals
stay ignored. SIGTERM is always handled.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Convert SIGTERM and SIGHUP to KeyboardInterrupt, so that all processes are cleaned up."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with _handled(interrupt):
        yield


@contextlib.contextmanager
def signals_as_cancellation(
    task: asyncio.Task[Any], loop: asyncio.AbstractEventLoop
) -> Iterator[None]:
    """Let SIGTERM and SIGHUP cancel a task, like Ctrl-C; a second one interrupts."""
    count = 0

    def cancel(*_: object) -> None:
        nonlocal count
        count += 1
        if count > 1 or task.done():
            raise KeyboardInterrupt
        task.cancel()
        # Wakes the loop, which waits for sockets.
        loop.call_soon_threadsafe(lambda: None)

    with _handled(cancel):
        yield


@contextlib.contextmanager
def _handled(handler: Any) -> Iterator[None]:
    before = {}
    # Only the main thread can set signal handlers. In other threads, the program has its own.
    with contextlib.suppress(ValueError):
        for number in (signal.SIGTERM, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
