"""One run of a sweep as a process of its own, so that no crash can reach the others.

A lock on each cell keeps it from running twice at once, or from outliving its sweep unseen.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracekit import manifest
from tracekit.errors import StoreError, TraceError, UsageError

from ..process.child import OWN_PYTHON, Child, end
from ..process.ending import signal_name
from ..process.parent import TO_SWEEP
from ..process.sessions import end_sessions, is_alive
from ..run.folder import LOGS, RunFolder
from ..run.stale_dirs import remove_stale
from ..training.result import make_manifest
from .grid import Cell

COLLECT = ("-m", "tracekit.collectors")
LOG = "collect.log"
_GRACE_S = 15.0
_REASON_LENGTH = 300
_TERM_S = 20.0
_KILL_S = 5.0


class CellLock:
    """The lock on one cell, as a context manager.

    The file `.NAME.lock` beside the run folder is locked by the sweep and by the cell that it
    starts, which inherits the lock. If the sweep is killed the cell still holds it, and the file
    says who that is: the next sweep ends it before it starts the cell anew. On Linux there is
    hardly ever one to end, because a cell ends with its sweep by itself.

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
        return (self._descriptor,)

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

    def __exit__(self, *exc_info: object) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._descriptor)

    def held_by(self, process_id: int) -> None:
        """Write down who holds the lock: this process, and the cell's."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()} {process_id}".encode(), 0)

    def _try(self) -> bool:
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


@dataclass(frozen=True, slots=True)
class _Ended:
    exit_code: int
    text: str

    def last_line(self, word: str) -> str | None:
        """Return the last line of stderr that begins with a word such as `error:`."""
        lines = [line for line in self.text.splitlines() if line.startswith(f"{word}: ")]
        return lines[-1].removeprefix(f"{word}: ") if lines else None

    def describe(self) -> str:
        """Return how it ended, where it does not say why itself."""
        if self.exit_code < 0:
            return f"the collector was ended by {signal_name(-self.exit_code)}"
        lines = self.text.split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "no message")
        return f"the collector ended with exit code {self.exit_code}: {last[:_REASON_LENGTH]}"


def run_cell(
    cell: Cell, folder: Path, arguments: Sequence[str], lock: CellLock
) -> manifest.Manifest:
    """Collect one run and return its manifest, which is in the folder.

    Whatever becomes of the run, the folder is whole: a run that failed before it could write one
    gets a manifest with the reason, and what it said in `logs/`. What is in the folder is replaced
    only by a whole new one. The run holds the lock on the cell too.

    Raises:
        StoreError: the disk is full or cannot be written; the next run would fare no better.
        KeyboardInterrupt: the run was ended with everything it had started.
    """
    before = _run_id(folder)
    ended = _run([*OWN_PYTHON, *COLLECT, *arguments], folder, lock)
    if ended.exit_code == StoreError.exit_code:
        message = ended.last_line("error") or f"{folder}: the run folder cannot be written"
        raise StoreError(message, hint=ended.last_line("hint"))
    if _run_id(folder) not in (None, before):
        return manifest.read(folder)
    reason = ended.last_line("error") or ended.describe()
    run = make_manifest(cell.spec, [], outcome="failed", reason=reason)
    run.command = ["python", *COLLECT, *arguments]
    with RunFolder(folder, force=True) as made:
        (made.path / LOGS / LOG).write_text(ended.text, "utf-8")
        made.commit(run)
    return run


def _run(command: Sequence[str], folder: Path, lock: CellLock) -> _Ended:
    """Run a command to its end; an interrupt ends it and all that it started.

    On Linux so does the end of this process, however it ends; elsewhere the next sweep finds it by
    its lock.
    """
    with tempfile.TemporaryFile() as output:
        child = Child(
            command,
            subprocess.DEVNULL,
            errors=output,
            added=TO_SWEEP.variables(),
            inherited=lock.inherited,
        )
        try:
            lock.held_by(child.pid)
            child.wait()
        finally:
            try:
                # It ends its ranks; those of one that is killed die with it.
                end([child], _GRACE_S if child.exit_code is None else 0)
            finally:
                remove_stale(folder)
        output.seek(0)
        return _Ended(child.wait() or 0, output.read().decode("utf-8", "replace"))


def _run_id(folder: Path) -> str | None:
    try:
        return manifest.read(folder).run_id
    except TraceError:
        return None
