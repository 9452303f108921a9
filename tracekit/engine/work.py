"""Inputs and results of units of work. All of them can be pickled.

A unit gets a batch of traces (usually ranks), and the job spec that all batches of a run share.
Traces have fixed ids, so results do not depend on other units.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from tracekit.dataset.layout import File
from tracekit.dataset.manifest import TraceEntry
from tracekit.engine.choice import cost_bytes
from tracekit.storage import Location, Place
from tracekit.units import MB


class TraceFile(Struct, frozen=True):
    """A trace file, usually of one rank.

    `trace_id` is the id in the complete run. `text_bytes` approximates the JSON text and determines
    the size of batches. `identity` changes with the file; None if unknown.
    """

    trace_id: int
    location: Location
    text_bytes: int
    identity: str | None = None
    run_id: str | None = None

    @property
    def entry(self) -> TraceEntry:
        return TraceEntry(self.trace_id, self.location.shown, self.identity)


class Batch(Struct, frozen=True):
    """Traces that one unit reads into one database. `number` is the index of the batch, from 0."""

    number: int
    traces: tuple[TraceFile, ...]

    @property
    def text_bytes(self) -> int:
        """Approximate size of the JSON text, bytes."""
        return sum(trace.text_bytes for trace in self.traces)

    def split(self) -> list[Batch]:
        """Return one batch per trace, with the number of this batch."""
        return [Batch(self.number, (trace,)) for trace in self.traces]


class JobSpec(Struct, frozen=True):
    """Settings that all batches share.

    `analyses` have scope ``trace`` and default parameters. `recipe` is a digest of everything that
    determines derived data; shards with another recipe are not reused. `memory_bytes` is the memory
    of one unit including its process.
    """

    analyses: tuple[str, ...]
    dataset: Location
    recipe: str
    rules_text: str | None = None
    runs: tuple[Place, ...] = ()
    memory_bytes: int = 512 << 20


class Shard(Struct, frozen=True):
    """Result of some traces of a batch; the traces are sorted by id and have distinct ranks.

    `small` maps names such as ``tables/trace`` or ``analyses/timeline`` to the bytes of one Parquet
    file each, for small tables and rows of analyses. `files` maps tables to the files that were
    written to the dataset.
    """

    traces: tuple[TraceFile, ...]
    small: dict[str, bytes]
    files: dict[str, File] = field(default_factory=dict)


class Failure(Struct, frozen=True):
    """Trace without a result. `is_disk_full` means that the trace is not the cause."""

    trace: TraceFile
    reason: str
    hint: str | None = None
    is_disk_full: bool = False


class BatchResult(Struct, frozen=True):
    """Result of one unit; every trace of its batch is in a shard or among the failures."""

    batch: Batch
    shards: tuple[Shard, ...]
    failures: tuple[Failure, ...]
    seconds: float = 0.0


_TEXT_SHARE = 0.36
"""Maximum JSON text of a unit, as a share of its memory."""

MIN_BATCH_BYTES = 48 * MB
"""Approximate minimum cost of a batch, below which another worker does not pay."""


def make_batches(traces: Sequence[TraceFile], memory_bytes: int, worker_count: int) -> list[Batch]:
    """Group adjacent traces into batches; a large trace gets its own batch."""
    most_bytes = memory_bytes * _TEXT_SHARE
    workers = max(1, worker_count)
    cost = cost_bytes([trace.text_bytes for trace in traces])
    # The memory and the cost determine the number of batches, which is rounded up to a multiple of
    # the number of workers. Batches have similar costs, so that workers finish together.
    for_memory = -int(-sum(trace.text_bytes for trace in traces) // most_bytes)
    count = max(1, for_memory, min(workers, -(-cost // MIN_BATCH_BYTES)))
    if count > 1:
        count = -(-count // workers) * workers
    even_cost = cost / count
    batches: list[Batch] = []
    waiting: list[TraceFile] = []
    taken_bytes = taken_cost = 0
    for trace in traces:
        trace_cost = cost_bytes([trace.text_bytes])
        # End the batch where its cost is nearest to an equal share.
        if waiting and (
            taken_cost + trace_cost / 2 > even_cost
            or taken_bytes + trace.text_bytes / 2 > most_bytes
        ):
            batches.append(Batch(len(batches), tuple(waiting)))
            waiting, taken_bytes, taken_cost = [], 0, 0
        waiting.append(trace)
        taken_bytes += trace.text_bytes
        taken_cost += trace_cost
    if waiting:
        batches.append(Batch(len(batches), tuple(waiting)))
    return batches
