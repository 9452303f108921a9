"""Waits until gloo's threads rest, before a profile or a worker ends.

Gloo tells that a collective is done first, and then, on a thread of its own, ends the span of it.
Whoever waited for the collective may end the profile in between, which frees what that thread is
about to write into. A few ms later the thread sleeps, and nothing can happen.

Such a thread frees the tensors of the last collective too, for which it may need the interpreter.
One that ends meanwhile ends the thread, and that aborts the process; plain torch does so as well.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ..process.sessions import read_stat

LIMIT_S = 0.2
"""How long to wait at most: a thread that is at work for so long is at another collective."""

_NAME = "pt_gloo_"
_POLL_S = 0.001
_CALM_COUNT = 2
_TASKS = Path("/proc/self/task")


def wait_until_idle(limit_s: float = LIMIT_S) -> None:
    """Wait until no thread of gloo's is at work, or the time is over; on Linux alone."""
    if "torch.distributed" not in sys.modules or not states(_TASKS):
        return
    deadline = time.monotonic() + limit_s
    calm_count = 0
    while calm_count < _CALM_COUNT and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        calm_count = 0 if "R" in states(_TASKS) else calm_count + 1


def states(tasks: Path) -> list[str]:
    """Return the state of each of gloo's threads, as in proc(5).

    `tasks` is the `/proc/<pid>/task` of a process; `R` is a thread that runs or wants to.
    """
    found = []
    try:
        for task in tasks.iterdir():
            stat = read_stat(task / "stat")
            if stat is not None and stat[0].startswith(_NAME):
                found.append(stat[1][0])
    except OSError:
        pass
    return found
