"""Selects the engine for traces of many ranks, and its resources on this machine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tracekit.ingest.sources import usual_text_bytes
from tracekit.units import MB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracekit.ingest.sources import Sources

MANY_BYTES = 64 * MB
"""Minimum cost for which parallel units of work are faster than one process."""

_RANK_BYTES = 1 * MB
"""Fixed cost of a rank, as the size of JSON text with equal reading time."""

_GROUPS = Path("/sys/fs/cgroup")
_SHARE = 0.5
"""Default total memory of all workers, as a share of the available memory."""

MAX_WORKER_BYTES = 512 * MB
"""Default maximum memory of one worker; more memory does not make it faster."""

MIN_WORKER_BYTES = 256 * MB


class EngineChoice(NamedTuple):
    """Engine for traces of many ranks, and its options.

    Without a name, many traces are read by local processes. `worker_count` is the maximum number of
    concurrent units, by default one per processor; `memory_bytes` is the total of all workers, by
    default a share of the machine's memory.
    """

    name: str | None = None
    worker_count: int | None = None
    memory_bytes: int | None = None
    address: str | None = None


def are_many(sources: Sources, choice: EngineChoice) -> bool:
    if choice.name is not None:
        return bool(sources.traces)
    if len(sources.traces) == 1:
        return False
    return cost_bytes([*map(usual_text_bytes, sources.traces)]) >= MANY_BYTES


def cost_bytes(text_bytes: Sequence[int]) -> int:
    """Return the cost of reading traces, as the bytes of JSON of one equally expensive trace."""
    return sum(text_bytes) + len(text_bytes) * _RANK_BYTES


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
            MIN_WORKER_BYTES, min(MAX_WORKER_BYTES, int(memory_bytes() * _SHARE) // count)
        )
    if worker_count is None:
        count = max(1, min(count, total_bytes // MIN_WORKER_BYTES))
    return count, total_bytes // count


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="ascii").strip()
    return ""
