"""One line on the terminal that says how far a load is; nothing where stderr is no terminal."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from tracekit.units import NS_PER_S

from .plan import LoadProgress

_INTERVAL_S = 0.2
_CLEAR = "\r\x1b[K"


class ProgressLine:
    """Draws `LoadProgress` over and over on the same line; a context manager that wipes it.

    Args:
        stream: stderr unless a test says otherwise.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream.isatty()
        self._stage: str | None = None
        self._next_s = 0.0

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._is_shown and self._stage is not None:
            self._write(_CLEAR)

    def __call__(self, state: LoadProgress) -> None:
        """Show a state, if the last one has been seen long enough."""
        now_s = time.monotonic()
        if not self._is_shown or (now_s < self._next_s and state.stage == self._stage):
            return
        self._next_s = now_s + _INTERVAL_S
        self._stage = state.stage
        self._write(_CLEAR + line_of(state))

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def line_of(state: LoadProgress) -> str:
    """Return a state as one line of text."""
    seconds = state.elapsed_ns / NS_PER_S
    if not state.request_count:
        return f"waiting for traces, {seconds:.0f} s"
    name = "profile" if state.stage == "trace" else state.stage
    rate = state.output_token_count / seconds if seconds > 0 else 0.0
    line = (
        f"{name}: {state.finished_count} of {state.request_count} requests, "
        f"{state.in_flight_count} in flight, {rate:,.0f} tokens/s"
    )
    return f"{line}, {state.failed_count} failed" if state.failed_count else line
