"""A progress bar on stderr, for what takes longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from tracekit.ingest.progress import Progress

PATIENCE_S = 2.0
_NAME_WIDTH = 32


@contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None] | None]:
    """Give a callback that draws bytes and rate after two seconds, or None without a terminal."""
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

    def update(self, progress: Progress) -> None:
        """Take the newest figures."""
        if self._rich is None or self._task is None:
            if self._clock() - self._begin < PATIENCE_S:
                return
            self._rich, self._task = self._show()
        from tracekit.render._text import printable, shorten

        self._rich.update(
            self._task,
            description=shorten(printable(Path(progress.path).name), _NAME_WIDTH),
            completed=progress.bytes_read,
            total=progress.bytes_total,
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
            rich_progress.DownloadColumn(),
            rich_progress.TransferSpeedColumn(),
            rich_progress.TimeRemainingColumn(),
            console=Console(file=sys.stderr),
            transient=True,
        )
        rich_bar.start()
        return rich_bar, rich_bar.add_task("", total=None)
