"""Choice of the engine for traces of many ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tracekit.ingest.sources import usual_text_bytes
from tracekit.units import MB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracekit.ingest.sources import Sources

MANY_BYTES = 64 * MB
"""Minimum cost at which units of work are faster than reading the traces sequentially."""

_RANK_BYTES = 1 * MB
"""Fixed cost of a rank (of its statements and rows), in bytes of text."""


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
    """Return the cost of traces as the size, in bytes of JSON, of one trace with equal cost."""
    return sum(text_bytes) + len(text_bytes) * _RANK_BYTES
