"""What an engine is: it does units of work, each somewhere, and hands on what they leave."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tracekit.engine.work import Batch, BatchResult, Failure, JobSpec
from tracekit.errors import UsageError


class Engine(Protocol):
    """Does units of work: in a loop, in processes of this machine, on a cluster.

    The same batches and job leave the same results on each engine, byte for byte; only in which
    order they come, and how long they take, differs.
    """

    @property
    def worker_count(self) -> int:
        """How many units it does at a time, at most."""
        ...

    def run(self, batches: Sequence[Batch], job: JobSpec) -> Generator[BatchResult, None, None]:
        """Do a unit for each batch; yield what each leaves, as soon as it is there, in any order.

        Every trace of every batch comes back exactly once, in a shard or as a failure: also where a
        worker died. Then its batch is done once more, each trace for itself, and what dies again is
        a failure. Only a few batches more than there are workers are under way at a time. Closing
        the generator (an error, Ctrl-C) ends all workers before it returns, and nothing
        half-written stays.

        Args:
            batches: what to do, largest first is best.
            job: what is wanted; ``memory_bytes`` holds for each unit.

        Raises:
            UsageError: the engine cannot be had: what it needs is not installed.
        """
        ...


class DiedError(Exception):
    """A unit met a defect of tracekit; its traceback is the text."""


@dataclass(frozen=True, slots=True)
class SerialEngine:
    """Does units one after the other, in this process; a unit that kills it, kills all."""

    worker_count: int = 1

    def run(self, batches: Sequence[Batch], job: JobSpec) -> Generator[BatchResult, None, None]:
        """Do a unit for each batch, in their order."""
        from tracekit.engine.unit import Worker

        with Worker(job) as worker:
            for batch in batches:
                yield worker.do(batch)


ENGINES = ("serial", "processes", "ray")


def make_engine(name: str, worker_count: int, *, address: str | None = None) -> Engine:
    """Make an engine.

    Args:
        name: one of :data:`ENGINES`.
        worker_count: maximum number of concurrent units; 0 on Ray for its number of processors.
        address: of the cluster that Ray shall join; None for that of RAY_ADDRESS, or one of this
            machine.

    Raises:
        UsageError: there is none of this name, or what it needs is not installed.
    """
    if name == "serial":
        return SerialEngine()
    if name == "processes":
        from tracekit.engine.processes_engine import ProcessesEngine

        return ProcessesEngine(worker_count)
    if name == "ray":
        from tracekit.engine.ray_engine import RayEngine, import_ray

        engine = RayEngine(worker_count, address)
        import_ray(is_cluster=engine.is_cluster)
        return engine
    raise UsageError(f"unknown engine {name!r}", hint="engines: " + ", ".join(ENGINES))


def given_up(batch: Batch, how_often: str, reason: str) -> BatchResult:
    """Return what is left of a batch whose worker ends whenever it is done."""
    failures = tuple(
        Failure(
            rank,
            f"{rank.location.shown}: {how_often} ({reason})",
            "increase --memory or reduce --workers",
        )
        for rank in batch.ranks
    )
    return BatchResult(batch, (), failures)
