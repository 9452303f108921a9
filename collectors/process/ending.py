"""Signals that end a process like Ctrl-C, and exit codes with their descriptions."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

_SHELL_BASE = 128
_TAIL_BYTES = 1 << 16
_TAIL_LINES = 3
_LINE_LENGTH = 400
# Examples: `ValueError: …`, `Fatal Python error: …`, `terminate called after throwing …`
_ERROR = re.compile(r"[\w.]*(?:Error|Exception)\b|Fatal|terminate called|\S+: error: ")


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def describe_exit_code(exit_code: int) -> str:
    """Describe an exit code: `exit code 1`, or `signal SIGKILL` if negative."""
    return f"exit code {exit_code}" if exit_code >= 0 else f"signal {signal_name(-exit_code)}"


def shell_code(exit_code: int) -> int:
    """Return an exit code as shells report it: 128 + n for signal n, which Python reports as -n."""
    return exit_code if exit_code >= 0 else _SHELL_BASE - exit_code


def last_lines(text: str) -> str:
    return " | ".join(_lines(text)[-_TAIL_LINES:])


def last_error(log: Path, exit_code: int) -> str:
    """Return the last error line of a log, or else its last lines.

    Without an error line, return nothing if the process was killed: its log has no reason.
    """
    lines = _lines(_tail(log))
    for text in reversed(lines):
        if _ERROR.match(text):
            return text[:_LINE_LENGTH]
    if -exit_code in (signal.SIGKILL, signal.SIGTERM):
        return ""
    messages = [line for line in lines if "Warning: " not in line]
    return " | ".join(messages[-_TAIL_LINES:])[-_LINE_LENGTH:]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


@contextlib.contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Convert SIGTERM and SIGHUP to KeyboardInterrupt, so that all processes are cleaned up.

    Background jobs of scripts ignore SIGINT, and processes under `nohup` ignore SIGHUP; ignored
    signals stay ignored. SIGTERM is always handled.
    """

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
