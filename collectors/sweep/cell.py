"""One run of a sweep, in its own process so that a crash does not affect the sweep."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from tracekit import manifest
from tracekit.errors import StoreError, TraceError, UsageError

from ..process.child import OWN_PYTHON, Child, end
from ..process.ending import signal_name
from ..process.sessions import is_alive
from ..run.folder import LOGS, RunFolder, remove_stale
from ..training.result import make_manifest
from .grid import Cell

COLLECT = ("-m", "tracekit.collectors")
LOG = "collect.log"
_GRACE_S = 15.0
_REASON_LENGTH = 300
# Maximum wait for the cell of a killed sweep to end.
_LEFT_S = 25.0
_POLL_S = 0.05


class CellLock:
    """Context manager for the lock of a cell, which the cell's process inherits.

    If the sweep is killed, the cell's process ends by itself, and a new sweep waits for it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder.resolve().parent / f".{folder.name}.lock"
        self._folder = folder
        self._descriptor = -1

    @property
    def inherited(self) -> tuple[int, ...]:
        return (self._descriptor,)

    def __enter__(self) -> CellLock:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + _LEFT_S
        while (holder := self._take()) is not None:
            if (holder and is_alive(holder)) or time.monotonic() > deadline:
                raise UsageError(
                    f"{self._folder} is in use by another sweep, process {holder}",
                    hint="wait for it, or use another --out",
                )
            time.sleep(_POLL_S)
        return self

    def __exit__(self, *exc_info: object) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._descriptor)

    def _take(self) -> int | None:
        descriptor, holder = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600), 0
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous owner may have removed the file.
            if os.path.samestat(os.fstat(descriptor), self._path.stat()):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                self._descriptor = descriptor
                return None
        except BlockingIOError:
            holder = int(os.pread(descriptor, 100, 0) or 0)
        except FileNotFoundError:
            pass
        os.close(descriptor)
        return holder


class _Ended(Struct, frozen=True):
    exit_code: int
    text: str

    def last_line(self, word: str) -> str | None:
        """Return the last line of stderr that begins with a word such as `error:`."""
        lines = [line for line in self.text.splitlines() if line.startswith(f"{word}: ")]
        return lines[-1].removeprefix(f"{word}: ") if lines else None

    def describe(self) -> str:
        if self.exit_code < 0:
            return f"the collector was ended by {signal_name(-self.exit_code)}"
        lines = self.text.split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "no message")
        return f"the collector ended with exit code {self.exit_code}: {last[:_REASON_LENGTH]}"


def run_cell(
    cell: Cell, folder: Path, arguments: Sequence[str], lock: CellLock
) -> manifest.Manifest:
    """Collect one run and return its manifest. The run folder is always complete.

    A run that failed before it wrote a manifest gets one with the reason. Only a complete folder
    replaces existing content. A disk error is raised, because it would also affect the next run.
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
    with RunFolder(folder, force=True) as run_folder:
        (run_folder.path / LOGS / LOG).write_text(ended.text, "utf-8")
        run_folder.commit(run)
    return run


def _run(command: Sequence[str], folder: Path, lock: CellLock) -> _Ended:
    with tempfile.TemporaryFile() as output:
        child = Child(command, subprocess.DEVNULL, errors=output, inherited=lock.inherited)
        try:
            child.wait()
        finally:
            try:
                # The child ends its ranks; if it is killed, their guards do.
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
