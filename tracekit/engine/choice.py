"""How traces of many ranks shall be read, and whether they are many."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tracekit.ingest.sources import usual_text_bytes
from tracekit.units import MB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracekit.ingest.sources import Sources

MANY_BYTES = 64 * MB
"""At such a cost several traces are sooner read by units than one after the other."""

_RANK_BYTES = 1 * MB
"""What a rank costs besides its text, as so much text: statements of its own, rows of its own."""


class EngineChoice(NamedTuple):
    """How traces of many ranks shall be read.

    Attributes:
        name: of the engine; None for processes where there are many traces.
        worker_count: units at a time; None for one on each processor.
        memory_bytes: what all workers may take together, bytes; None for a share of the machine's.
        address: of the cluster, for the engine that takes one.
    """

    name: str | None = None
    worker_count: int | None = None
    memory_bytes: int | None = None
    address: str | None = None


def are_many(sources: Sources, choice: EngineChoice) -> bool:
    """Whether traces are read by units of work."""
    if choice.name is not None:
        return bool(sources.traces)
    if len(sources.traces) == 1:
        return False
    return cost_bytes([*map(usual_text_bytes, sources.traces)]) >= MANY_BYTES


def cost_bytes(text_bytes: Sequence[int]) -> int:
    """Return how much JSON text of one trace takes as long as traces of these sizes do."""
    return sum(text_bytes) + len(text_bytes) * _RANK_BYTES
