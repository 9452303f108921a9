"""Progress bars on stderr for long operations."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.units import MB

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn, TaskID

    from tracekit.engine.dataset_writer import RunProgress
    from tracekit.ingest.trace_readers import Progress

PATIENCE_S = 0.5
SLOW_S = 2.0
"""Time after which the slowest rank is named, seconds."""

_NAME_WIDTH = 32


@contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None] | None]:
    """Yield a callback that shows bytes and rate after half a second; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from tracekit.storage.stream import Came, progress_reports

    bar = _PatientBar(_byte_columns)
    shown_s = 0.0

    def update(state: Progress) -> None:
        nonlocal shown_s
        shown_s = time.monotonic()
        bar.update(lambda _: _described(state.path), state.bytes_read, state.bytes_total or None)

    def show(came: Came) -> None:
        # Show progress in bytes of the trace unless it is updated too rarely.
        if time.monotonic() - shown_s > PATIENCE_S:
            bar.update(lambda _: _described(came.name), came.count_bytes, came.total_bytes)

    try:
        with progress_reports(show):
            yield update
    finally:
        bar.close()


def _byte_columns() -> Sequence[ProgressColumn]:
    from rich import progress as rich_progress

    return rich_progress.DownloadColumn(), rich_progress.TransferSpeedColumn()


def _described(path: str) -> str:
    from tracekit.render._text import printable, truncate

    return truncate(printable(Path(path).name), _NAME_WIDTH)


class _PatientBar:
    """A progress bar on stderr that is loaded and drawn only after a delay."""

    def __init__(self, columns: Callable[[], Sequence[ProgressColumn]] = tuple) -> None:
        """Start the delay."""
        self._columns = columns
        self._begin = time.monotonic()
        self._lock = threading.Lock()
        self._rich: RichProgress | None = None
        self._task: TaskID | None = None

    def update(
        self, described: Callable[[float], str], completed: float, total: float | None
    ) -> None:
        """Update the bar. `described` takes the elapsed seconds and returns the leading text."""
        seconds = time.monotonic() - self._begin
        with self._lock:
            if self._rich is None or self._task is None:
                if seconds < PATIENCE_S:
                    return
                self._rich, self._task = self._show()
        self._rich.update(
            self._task, description=described(seconds), completed=completed, total=total
        )

    def close(self) -> None:
        """Remove the bar from the screen."""
        if self._rich is not None:
            self._rich.stop()

    def _show(self) -> tuple[RichProgress, TaskID]:
        from rich import progress as rich_progress
        from rich.console import Console

        rich_bar = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}", markup=False),
            rich_progress.BarColumn(),
            *self._columns(),
            rich_progress.TimeRemainingColumn(),
            console=Console(file=sys.stderr),
            transient=True,
        )
        rich_bar.start()
        return rich_bar, rich_bar.add_task("", total=None)


@contextmanager
def ranks_bar() -> Iterator[Callable[[RunProgress], None] | None]:
    """Yield a callback that shows the progress of many ranks; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _PatientBar()

    def update(state: RunProgress) -> None:
        bar.update(
            lambda seconds: _ranks_described(state, seconds), state.done_bytes, state.text_bytes
        )

    try:
        yield update
    finally:
        bar.close()


def _ranks_described(state: RunProgress, seconds: float) -> str:
    """Return one line with the progress of many ranks after the given time."""
    from tracekit.render._text import printable

    parts = [f"{state.done_count:,} of {state.trace_count:,} ranks"]
    if seconds > 0:
        parts.append(f"{state.read_bytes / MB / seconds:,.0f} MB/s")
    if state.failures:
        parts.append(f"{len(state.failures):,} failed")
    slow = state.slowest
    if slow is not None and slow.seconds > SLOW_S:
        name = slow.batch.traces[0].location.name
        more = f" and {len(slow.batch.traces) - 1} more" if len(slow.batch.traces) > 1 else ""
        parts.append(f"slowest {slow.seconds:,.1f} s: {name}{more}")
    return printable(" · ".join(parts))
