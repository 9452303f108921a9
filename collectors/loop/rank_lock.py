"""Of several processes that say they are one rank, one is recorded: the first that trains.

Processes that no launcher has numbered (a search over settings, Hogwild) are all rank 0. Each would
leave its report and its trace under the same names, and one run would be made of both.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from ..process.sessions import read_stat

UNRECORDED = "unrecorded"
"""The file in which a process says why it does not record what it trains."""


def claim(folder: Path, rank: int) -> bool:
    """Take a rank for this process; return whether it is ours.

    One that has ended has no claim any more: its launcher may have started it again.
    """
    holder = folder / f"rank{rank}.process"
    mark = str(os.getpid())
    for _ in range(2):
        try:
            with holder.open("x", encoding="ascii") as file:
                file.write(mark)
            return True
        except FileExistsError:
            if _is_running(holder):
                (folder / f"rank{rank}.also-{mark}").touch()
                return False
            with contextlib.suppress(OSError):
                holder.unlink()
        except OSError:  # the other side has gone
            return True
    return False


def rejected_count(folder: Path, rank: int) -> int:
    """Return how many processes were not recorded as another was this rank."""
    return sum(1 for _ in folder.glob(f"rank{rank}.also-*"))


def _is_running(holder: Path) -> bool:
    """Tell whether the process that holds a claim runs, and is not this one."""
    try:
        text = holder.read_text("ascii")
    except OSError:
        return False
    if not text.isdecimal():  # it is being written
        return True
    if int(text) == os.getpid() or not Path("/proc/self/stat").exists():
        return False
    stat = read_stat(Path("/proc") / text / "stat")
    return stat is not None and stat[1][0] not in "ZX"
