"""A progress bar on stderr, for what takes longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn, TaskID

    from tracekit.ingest.progress import Progress

PATIENCE_S = 2.0
_NAME_WIDTH = 32


@contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None] | None]:
    """Give a callback that draws bytes and rate after two seconds, or None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = PatientBar(_byte_columns)

    def update(state: Progress) -> None:
        bar.update(lambda _: _described(state), state.bytes_read, state.bytes_total or None)

    try:
        yield update
    finally:
        bar.close()


def _byte_columns() -> Sequence[ProgressColumn]:
    from rich import progress as rich_progress

    return rich_progress.DownloadColumn(), rich_progress.TransferSpeedColumn()


def _described(state: Progress) -> str:
    from tracekit.render._text import printable, shorten

    return shorten(printable(Path(state.path).name), _NAME_WIDTH)


class PatientBar:
    """A bar on stderr that draws nothing, and loads nothing, before its patience is over."""

    def __init__(self, columns: Callable[[], Sequence[ProgressColumn]] = tuple) -> None:
        """Begin to wait.

        Args:
            columns: makes what stands between the bar and the remaining time.
        """
        self._columns = columns
        self._begin = time.monotonic()
        self._rich: RichProgress | None = None
        self._task: TaskID | None = None

    def update(
        self, described: Callable[[float], str], completed: float, total: float | None
    ) -> None:
        """Take the newest figures.

        Args:
            described: returns what stands before the bar, from the seconds since it was begun.
            completed: how much is done.
            total: of how much; None where it is not known.
        """
        seconds = time.monotonic() - self._begin
        if self._rich is None or self._task is None:
            if seconds < PATIENCE_S:
                return
            self._rich, self._task = self._show()
        self._rich.update(
            self._task, description=described(seconds), completed=completed, total=total
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
            *self._columns(),
            rich_progress.TimeRemainingColumn(),
            console=Console(file=sys.stderr),
            transient=True,
        )
        rich_bar.start()
        return rich_bar, rich_bar.add_task("", total=None)
