"""A progress bar on stderr for the traces of many ranks: ranks, rate, failures, what is slow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tracekit.cli._progress import PATIENCE_S, PatientBar
from tracekit.units import MB

if TYPE_CHECKING:
    from tracekit.engine.making import RunProgress


@contextmanager
def ranks_bar() -> Iterator[Callable[[RunProgress], None] | None]:
    """Give a callback that draws how far many ranks are, or None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = PatientBar()

    def update(state: RunProgress) -> None:
        bar.update(lambda seconds: described(state, seconds), state.done_bytes, state.text_bytes)

    try:
        yield update
    finally:
        bar.close()


def described(state: RunProgress, seconds: float) -> str:
    """Return how far many ranks are, in one line.

    Args:
        state: how far they are.
        seconds: since they were begun.
    """
    from tracekit.render._text import printable

    parts = [f"{state.done_count:,} of {state.trace_count:,} ranks"]
    if seconds > 0:
        parts.append(f"{state.read_bytes / MB / seconds:,.0f} MB/s")
    if state.failures:
        parts.append(f"{len(state.failures):,} failed")
    slow = state.slowest
    if slow is not None and slow.seconds > PATIENCE_S:
        name = slow.batch.ranks[0].location.name
        more = f" and {len(slow.batch.ranks) - 1} more" if len(slow.batch.ranks) > 1 else ""
        parts.append(f"slowest {slow.seconds:,.1f} s: {name}{more}")
    return printable(" · ".join(parts))
