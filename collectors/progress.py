"""Progress and messages on the terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TextIO

_INTERVAL_S = 0.2
_CLEAR = "\r\x1b[K"


class ProgressLine:
    """Redraws one line of a terminal; as a context manager, it clears the line at the end."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._shown: tuple[str, str] | None = None
        self._next_s = 0.0

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._shown is not None:
            self._write(_CLEAR)

    def show(self, text: str, topic: str) -> None:
        now_s = time.monotonic()
        is_early = self._shown is not None and self._shown[1] == topic and now_s < self._next_s
        if self._is_terminal and not is_early and self._shown != (text, topic):
            self._shown = (text, topic)
            self._next_s = now_s + _INTERVAL_S
            self._write(_CLEAR + text)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def write_notice(text: str) -> None:
    """Write a line to stderr, without breaking progress bars if the program has imported tqdm."""
    line = f"tracekit: {text}"
    bars = getattr(sys.modules.get("tqdm"), "tqdm", None)
    if bars is not None:
        try:
            bars.write(line, file=sys.stderr)
        except Exception:  # noqa: BLE001 - the program may have replaced the module
            pass
        else:
            return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{line}\n")
