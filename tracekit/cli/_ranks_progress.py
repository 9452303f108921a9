"""A progress bar on stderr for the traces of many ranks: ranks, rate, failures, what is slow."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tracekit.cli._progress import PATIENCE_S
from tracekit.units import MB

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from tracekit.engine.making import RunProgress


@contextmanager
def ranks_bar() -> Iterator[Callable[[RunProgress], None] | None]:
    """Give a callback that draws how far many ranks are, or None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(time.monotonic)
    try:
        yield bar.update
    finally:
        bar.close()


class _Bar:
    """Draws nothing, and loads nothing, before its patience is over."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begin = clock()
        self._rich: RichProgress | None = None
        self._task: TaskID | None = None

    def update(self, state: RunProgress) -> None:
        """Take the newest figures."""
        if self._rich is None or self._task is None:
            if self._clock() - self._begin < PATIENCE_S:
                return
            self._rich, self._task = self._show()
        self._rich.update(
            self._task,
            description=described(state, self._clock() - self._begin),
            completed=state.done_bytes,
            total=state.text_bytes,
        )

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._rich is not None:
            self._rich.stop()

    def _show(self) -> tuple[RichProgress, TaskID]:
        from rich import progress as rich_progress
        from rich.console import Console

        rich_bar = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}", markup=False),
            rich_progress.BarColumn(),
            rich_progress.TimeRemainingColumn(),
            console=Console(file=sys.stderr),
            transient=True,
        )
        rich_bar.start()
        return rich_bar, rich_bar.add_task("", total=None)


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
