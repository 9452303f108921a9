"""One run of a sweep as a process of its own, so that no crash can reach the others."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracekit import manifest
from tracekit.errors import StoreError, TraceError, WorkloadError

from ..process.child import OWN_PYTHON, Child, end
from ..process.ending import signal_name
from ..process.parent import TO_SWEEP
from ..run.folder import LOGS, RunFolder
from ..run.leftovers import sweep
from ..training.result import make_manifest
from .cell_lock import CellLock
from .grid import Cell

COLLECT = ("-m", "tracekit.collectors")
LOG = "collect.log"
_GRACE_S = 15.0
_REASON_LENGTH = 300


@dataclass(frozen=True, slots=True)
class _Ended:
    exit_code: int
    text: str

    def said(self, word: str) -> str | None:
        """Return the last line of stderr that begins with a word such as `error:`."""
        lines = [line for line in self.text.splitlines() if line.startswith(f"{word}: ")]
        return lines[-1].removeprefix(f"{word}: ") if lines else None

    def how(self) -> str:
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
    gets a manifest with the reason, and what it said in `logs/`.

    Args:
        cell: what is run.
        folder: the run folder; what is there is replaced only by a whole new one.
        arguments: of `python -m tracekit.collectors`.
        lock: on the cell; the run holds it too.

    Raises:
        StoreError: the disk is full or cannot be written; the next run would fare no better.
        KeyboardInterrupt: the run was ended with everything it had started.
    """
    before = _run_id(folder)
    ended = _run([*OWN_PYTHON, *COLLECT, *arguments], folder, lock)
    if ended.exit_code == StoreError.exit_code:
        message = ended.said("error") or f"{folder}: the run folder cannot be written"
        raise StoreError(message, hint=ended.said("hint"))
    if _run_id(folder) not in (None, before):
        return manifest.read(folder)
    reason = ended.said("error") or ended.how()
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
                sweep(folder)
        output.seek(0)
        return _Ended(child.wait() or 0, output.read().decode("utf-8", "replace"))


def _run_id(folder: Path) -> str | None:
    try:
        return manifest.read(folder).run_id
    except TraceError:
        return None


def require_success(failed_names: Sequence[str], cell_count: int) -> None:
    """Say which cells failed.

    Raises:
        WorkloadError: there are some.
    """
    if failed_names:
        raise WorkloadError(
            f"{len(failed_names)} of {cell_count} cells failed: {', '.join(failed_names)}",
            hint="each folder has the reason in run.json and in logs/; the same command runs "
            "only these again",
        )
