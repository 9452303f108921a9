"""Ensures that only one process per rank is recorded.

Processes without a launcher (hyperparameter search, Hogwild) are all rank 0, and would write the
same files. The first process that trains is recorded. Another process takes over only if the
recorded process becomes idle before its recording is complete, like a pool worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

from ..process.sessions import read_stat

UNRECORDED = "unrecorded"
"""File in which a process writes why it does not record its training."""

_IDLE_PART = 0.05
"""A process is idle if it uses less than this fraction of the claiming process's CPU time."""

_SEEN_S = 0.05
"""Minimum CPU time of the claiming process for the comparison, because process clocks tick every 10
ms."""


class RankClaim:
    """A file with the id of the recorded process; void once the process has ended."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank
        self._holder = folder / f"rank{rank}.process"
        # The holder of the rank, and the CPU times (s) of the holder and of this process when the
        # holder was last active.
        self._before: tuple[int, float, float] | None = None

    def take(self) -> bool:
        for _ in range(2):
            try:
                with self._holder.open("x", encoding="ascii") as file:
                    file.write(str(os.getpid()))
                self._note(os.getpid()).unlink(missing_ok=True)
                return True
            except FileExistsError:
                if not self._is_free():
                    self.reject()
                    return False
                with contextlib.suppress(OSError):
                    self._holder.unlink()
            except OSError:  # the parent has exited and removed the folder
                return True
        return False

    def reject(self) -> None:
        with contextlib.suppress(OSError):
            self._note(os.getpid()).touch()

    @property
    def is_held(self) -> bool:
        return holder_of(self._folder, self._rank) in (os.getpid(), None)

    def _note(self, process: int) -> Path:
        return self._folder / f"rank{self._rank}.also-{process}"

    def _is_free(self) -> bool:
        holder = holder_of(self._folder, self._rank)
        if holder is None:  # the file is being written
            return False
        computed_s = _computed_s(holder)
        if holder == os.getpid() or computed_s is None:
            return True
        now = holder, computed_s, time.process_time()
        before = self._before if self._before is not None and self._before[0] == holder else now
        own_s = now[2] - before[2]
        if now[1] - before[1] >= _IDLE_PART * max(own_s, _SEEN_S):
            before = now
        self._before = before
        is_idle = before is not now and own_s >= _SEEN_S and not self._is_recorded()
        if is_idle:
            self._note(holder).touch()
        return is_idle

    def _is_recorded(self) -> bool:
        try:
            report = json.loads((self._folder / f"rank{self._rank}.report.json").read_text("utf-8"))
        except (OSError, ValueError):
            return False
        return bool(report["is_recorded"])


def holder_of(folder: Path, rank: int) -> int | None:
    try:
        text = (folder / f"rank{rank}.process").read_text("ascii")
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def rejected_count(folder: Path, rank: int) -> int:
    return sum(1 for _ in folder.glob(f"rank{rank}.also-*"))


def _computed_s(process: int) -> float | None:
    stat = read_stat(Path(f"/proc/{process}/stat"))
    if stat is None or stat[1][0] in "ZX":
        return None
    return (int(stat[1][11]) + int(stat[1][12])) / os.sysconf("SC_CLK_TCK")
