"""A lock on each cell of a sweep: no cell runs twice at once, and none outlives its sweep unseen.

The file `.NAME.lock` beside the run folder is locked by the sweep and by the cell that it starts,
which inherits the lock. If the sweep is killed the cell still holds it, and the file says who that
is: the next sweep ends it before it starts the cell anew. On Linux there is hardly ever one to end,
because a cell ends with its sweep by itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tracekit.errors import UsageError

from ..process.sessions import end_sessions, is_alive

try:
    import fcntl
except ImportError:  # no POSIX
    _HAS_LOCKS = False
else:
    _HAS_LOCKS = True

_TERM_S = 20.0
_KILL_S = 5.0


class CellLock:
    """The lock on one cell, as a context manager.

    Args:
        folder: the cell's run folder.
        echo: takes lines for people.

    Raises:
        UsageError: another sweep runs the cell, or what runs it cannot be ended.
    """

    def __init__(self, folder: Path, echo: Callable[[str], None]) -> None:
        self._path = folder.resolve().parent / f".{folder.name}.lock"
        self._folder = folder
        self._echo = echo
        self._descriptor = -1

    @property
    def inherited(self) -> tuple[int, ...]:
        """The descriptors that the cell's process is to inherit."""
        return (self._descriptor,) if _HAS_LOCKS else ()

    def __enter__(self) -> CellLock:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if not self._try():
                    self._end_orphan()
            except BaseException:
                os.close(self._descriptor)
                raise
            if self._is_current():
                break
            # Whoever held it has removed the file.
            os.close(self._descriptor)
        self.held_by(0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._descriptor)

    def held_by(self, process_id: int) -> None:
        """Write down who holds the lock: this process, and the cell's."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()} {process_id}".encode(), 0)

    def _try(self) -> bool:
        if not _HAS_LOCKS:
            return True
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        except OSError:
            return False

    def _end_orphan(self) -> None:
        """End the cell of a sweep that is gone, and take the lock."""
        words = os.pread(self._descriptor, 100, 0).split()
        sweep, cell = (int(word) for word in words) if len(words) == 2 else (0, 0)
        if cell == 0 or (sweep > 0 and is_alive(sweep)):
            who = f"process {sweep}" if sweep else "another process"
            raise UsageError(
                f"{self._folder} is being made by another sweep, {who}",
                hint="wait for it, or choose another --out",
            )
        self._echo(f"  ending process {cell}, which a sweep that was killed left running")
        end_sessions([cell], _TERM_S, _KILL_S)
        if not self._try():
            raise UsageError(f"{self._folder}: process {cell} makes it and cannot be ended")
