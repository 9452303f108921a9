"""Engines that run units of work and return their results."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

from msgspec import Struct

from tracekit.engine.work import Batch, BatchResult, Failure, JobSpec
from tracekit.errors import UsageError


class Engine(Protocol):
    """Runs units of work: serially, in local processes, or on a cluster.

    Engines differ in run time and in the order of results, but return the same bytes for the same
    batches and job.
    """

    @property
    def worker_count(self) -> int:
        """Maximum number of units that run concurrently."""
        ...

    def run(self, batches: Sequence[Batch], job: JobSpec) -> Generator[BatchResult, None, None]:
        """Run a unit for each batch; yield the results in order of completion.

        Every trace of every batch is returned exactly once, in a shard or as a failure. If a worker
        dies, its batch is retried with one unit per trace. A trace whose worker dies repeatedly is
        a failure. Only slightly more batches than workers are in progress at a time. Closing the
        generator (after an error or Ctrl-C) ends all workers and removes incomplete files before
        the call returns.
        """
        ...


class DiedError(Exception):
    """A unit raised an unexpected exception; the message is its traceback."""


class SerialEngine(Struct, frozen=True):
    """Runs units sequentially in this process. A crash ends all of them."""

    worker_count: int = 1

    def run(self, batches: Sequence[Batch], job: JobSpec) -> Generator[BatchResult, None, None]:
        from tracekit.engine.unit import Worker

        with Worker(job) as worker:
            for batch in batches:
                yield worker.do(batch)


ENGINES = ("serial", "processes", "ray")


def make_engine(name: str, worker_count: int, *, address: str | None = None) -> Engine:
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


class Task(Struct, frozen=True):
    """A batch, and the number of times its worker died."""

    batch: Batch
    death_count: int = 0


def failed_batch(batch: Batch, how_often: str, reason: str) -> BatchResult:
    """Return failures for a batch whose workers died on every attempt."""
    failures = tuple(
        Failure(
            trace,
            f"{trace.location.shown}: {how_often} ({reason})",
            "increase --memory or reduce --workers",
        )
        for trace in batch.traces
    )
    return BatchResult(batch, (), failures)
