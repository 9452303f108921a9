"""Waits until gloo's threads are idle before a profile or a worker ends.

Gloo reports a collective as done before its thread ends the collective's span. If the profile ends
in between, it frees memory that the thread then writes. The thread also frees the tensors of the
last collective, which aborts the process during interpreter shutdown.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ..process.sessions import read_stat

LIMIT_S = 0.2
"""Maximum wait, s: a thread that is busy for longer is running another collective."""

_NAME = "pt_gloo_"
_POLL_S = 0.001
_CALM_COUNT = 2
_TASKS = Path("/proc/self/task")


def wait_until_idle(limit_s: float = LIMIT_S) -> None:
    if "torch.distributed" not in sys.modules or not states(_TASKS):
        return
    deadline = time.monotonic() + limit_s
    calm_count = 0
    while calm_count < _CALM_COUNT and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        calm_count = 0 if "R" in states(_TASKS) else calm_count + 1


def states(tasks: Path) -> list[str]:
    """Return the states of gloo's threads in `/proc/<pid>/task`; `R` means running or runnable."""
    results = []
    try:
        for task in tasks.iterdir():
            stat = read_stat(task / "stat")
            if stat is not None and stat[0].startswith(_NAME):
                results.append(stat[1][0])
    except OSError:
        pass
    return results
