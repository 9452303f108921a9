"""One line on the terminal that says how far a bench run is; nothing where stderr is none."""

from __future__ import annotations

import sys
from typing import TextIO

from .point import Point

_CLEAR = "\r\x1b[K"
_WIDTH = 79


class ProgressLine:
    """Draws over and over on the same line; a context manager that wipes it.

    Args:
        stream: stderr unless a test says otherwise.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._shown = ""

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._shown:
            self._write(_CLEAR)

    def show(self, done: int, count: int, point: Point) -> None:
        """Say which point is measured, of how many."""
        text = f"{point.family}: {done + 1} of {count}  {point}"[:_WIDTH]
        if self._is_terminal and text != self._shown:
            self._shown = text
            self._write(_CLEAR + text)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
