"""The engine that is a loop: one unit after the other, in this process."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from tracekit.engine.unit import Worker
from tracekit.engine.work import Batch, Order, Outcome


@dataclass(frozen=True, slots=True)
class SerialEngine:
    """Does units one after the other, in this process; a unit that kills it, kills all."""

    worker_count: int = 1

    def run(self, batches: Sequence[Batch], order: Order) -> Generator[Outcome, None, None]:
        """Do a unit for each batch, in their order; see :class:`tracekit.engine.engines.Engine`."""
        with Worker(order) as worker:
            for batch in batches:
                yield worker.do(batch)


def make(worker_count: int = 1) -> SerialEngine:
    """Return the engine; it does one unit at a time, whatever is asked for."""
    del worker_count
    return SerialEngine()
