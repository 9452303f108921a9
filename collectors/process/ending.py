"""Exit codes and their descriptions."""

from __future__ import annotations

import re
import signal
from pathlib import Path

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
