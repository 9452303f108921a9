"""Number of processors and amount of memory that the machine or container provides."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tracekit.units import MB

_GROUPS = Path("/sys/fs/cgroup")
_SHARE = 0.5
"""Default total memory of all workers, as a share of the available memory."""

MOST_WORKER_BYTES = 512 * MB
"""Default maximum memory of one worker; more memory does not make it faster."""

LEAST_WORKER_BYTES = 256 * MB


def processor_count() -> int:
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    quota = _read(_GROUPS / "cpu.max").split()
    if not quota:
        period = _read(_GROUPS / "cpu" / "cpu.cfs_period_us")
        quota = [_read(_GROUPS / "cpu" / "cpu.cfs_quota_us"), period]
    if len(quota) == 2 and all(text.isdigit() for text in quota) and int(quota[1]):
        count = min(count, max(1, int(quota[0]) // int(quota[1])))
    return count


def memory_bytes() -> int:
    """Return the total memory of the machine or of its cgroup, in bytes."""
    results = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        text = _read(_GROUPS / name)
        if text.isdigit():
            results.append(int(text))
    return min(results)


def shares(worker_count: int | None = None, total_bytes: int | None = None) -> tuple[int, int]:
    count = worker_count or processor_count()
    if total_bytes is None:
        return count, max(
            LEAST_WORKER_BYTES, min(MOST_WORKER_BYTES, int(memory_bytes() * _SHARE) // count)
        )
    if worker_count is None:
        count = max(1, min(count, total_bytes // LEAST_WORKER_BYTES))
    return count, total_bytes // count


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="ascii").strip()
    return ""
