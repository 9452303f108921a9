"""Ensures that only one process per rank is recorded.

Processes without a launcher (hyperparameter search, Hogwild) are all rank 0, and would write
reports and traces with the same names into one run. The first process that trains is recorded,
unless it becomes idle while another trains and its recording is incomplete: a worker that took a
few steps may stay in its pool as long as the program runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

from ..process.sessions import read_stat

UNRECORDED = "unrecorded"
"""The file in which a process says why it does not record what it trains."""

_IDLE_PART = 0.05
"""A process is idle that computes less than this part of what another does,"""

_SEEN_S = 0.05
"""while the other computes for so long: the clock of processes has ticks of 10 ms."""


class RankClaim:
    """The claim of this process on a rank: a file that holds the number of its process.

    One that has ended has no claim any more: its launcher may have started it again.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank
        self._holder = folder / f"rank{rank}.process"
        # What process holds the rank, and how long it and this one had computed when it was active.
        self._before: tuple[int, float, float] | None = None

    def take(self) -> bool:
        """Take the rank, if it is free; return whether it is this process's."""
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
            except OSError:  # the other side has gone
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
        """Return whether the owner of the rank has ended, is this process, or is idle."""
        holder = holder_of(self._folder, self._rank)
        if holder is None:  # it is being written
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
    """Return the process that is recorded as a rank, as far as it is known."""
    try:
        text = (folder / f"rank{rank}.process").read_text("ascii")
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def rejected_count(folder: Path, rank: int) -> int:
    """Return how many processes were not recorded as another was this rank."""
    return sum(1 for _ in folder.glob(f"rank{rank}.also-*"))


def _computed_s(process: int) -> float | None:
    """Return the CPU time of a process, s; None if it has ended."""
    stat = read_stat(Path(f"/proc/{process}/stat"))
    if stat is None or stat[1][0] in "ZX":
        return None
    return (int(stat[1][11]) + int(stat[1][12])) / os.sysconf("SC_CLK_TCK")
