"""What an engine is: it does units of work, each somewhere, and hands on what they leave."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

from tracekit.engine.work import Batch, Order, Outcome
from tracekit.errors import UsageError


class Engine(Protocol):
    """Does units of work: in a loop, in processes of this machine, on a cluster.

    The same batches and order leave the same results on each engine, byte for byte; only in which
    order they come, and how long they take, differs.
    """

    @property
    def worker_count(self) -> int:
        """How many units it does at a time, at most."""
        ...

    def run(self, batches: Sequence[Batch], order: Order) -> Generator[Outcome, None, None]:
        """Do a unit for each batch; yield what each leaves, as soon as it is there, in any order.

        Every trace of every batch comes back exactly once, in a piece or as a failure: also where a
        worker died. Then its batch is done once more, each trace for itself, and what dies again is
        a failure. Only a few batches more than there are workers are under way at a time. Closing
        the generator (an error, Ctrl-C) ends all workers before it returns, and nothing
        half-written stays.

        Args:
            batches: what to do, largest first is best.
            order: what is wanted; ``memory_bytes`` holds for each unit.

        Raises:
            UsageError: the engine cannot be had: what it needs is not installed.
        """
        ...


ENGINES = ("serial", "processes", "ray")
"""The names of the engines; each is a module ``<name>_engine`` beside this one."""


def make_engine(name: str, worker_count: int, **options: object) -> Engine:
    """Make an engine.

    Args:
        name: one of :data:`ENGINES`.
        worker_count: how many units at a time, at most.
        **options: what only this engine takes: ``address`` of the one on Ray.

    Raises:
        UsageError: there is none of this name, or what it needs is not installed.
    """
    module = f"{__package__}.{name}_engine"
    if name not in ENGINES or find_spec(module) is None:
        there = [one for one in ENGINES if find_spec(f"{__package__}.{one}_engine")]
        raise UsageError(
            f"there is no engine {name!r} in this tracekit", hint="engines: " + ", ".join(there)
        )
    engine: Engine = import_module(module).make(worker_count, **options)
    return engine
