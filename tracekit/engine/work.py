"""What a unit of work is given, and what it leaves. All of it can be pickled.

A unit takes a batch of traces (mostly ranks) and a job spec, which is the same for all batches of a
run. The ids of traces are given with them: what a unit leaves is final, whatever was done before it
and wherever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tracekit.dataset.layout import File
from tracekit.dataset.shards import ShardTrace
from tracekit.engine.choice import cost_bytes
from tracekit.storage import Location, Place
from tracekit.units import MB


@dataclass(frozen=True, slots=True)
class Rank:
    """One trace file to be read; mostly that of one rank.

    Attributes:
        trace_id: its id in the whole run.
        location: where it lies.
        text_bytes: how much JSON text it holds, roughly; decides how many share a batch.
        identity: what changes whenever the file does; None if nothing is known.
        run_id: the run whose folder it lies in; None if in none.
    """

    trace_id: int
    location: Location
    text_bytes: int
    identity: str | None = None
    run_id: str | None = None

    @property
    def in_shard(self) -> ShardTrace:
        """The trace as a shard of a dataset names it."""
        return ShardTrace(self.trace_id, self.location.shown, self.identity)


@dataclass(frozen=True, slots=True)
class Batch:
    """The traces that one unit reads into one database; `number` counts batches from 0."""

    number: int
    ranks: tuple[Rank, ...]

    @property
    def text_bytes(self) -> int:
        """How much JSON text it holds, roughly."""
        return sum(rank.text_bytes for rank in self.ranks)

    def split(self) -> list[Batch]:
        """Return a batch of each of its traces, under the same number."""
        return [Batch(self.number, (rank,)) for rank in self.ranks]


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What is wanted of every batch.

    Attributes:
        analyses: names of analyses of scope ``trace`` whose rows with default parameters are
            wanted.
        dataset: the dataset that the large tables are written to; None to leave them out.
        recipe: digest of what decides what is derived; shards of another recipe are not taken over.
        rules_text: the user's rules for the classifiers, as the file says them.
        runs: run folders whose manifests the analyses may look at.
        memory_bytes: what one unit may take, its process included, bytes.
    """

    analyses: tuple[str, ...]
    dataset: Location | None
    recipe: str
    rules_text: str | None = None
    runs: tuple[Place, ...] = ()
    memory_bytes: int = 512 << 20


@dataclass(frozen=True, slots=True)
class Shard:
    """What became of some traces of a batch that were read: the result.

    Attributes:
        ranks: the traces, in the order of their ids; no two are of the same rank.
        small: the small tables and the rows of the analyses, each as the bytes of one Parquet file,
            by name: ``tables/trace``, ``analyses/timeline``.
        files: what was written to the dataset, by table; empty where nothing should be.
    """

    ranks: tuple[Rank, ...]
    small: dict[str, bytes] = field(repr=False)
    files: dict[str, File] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """A trace that is not among the results, with the reason in one sentence and a hint, if any.

    Attributes:
        rank: the trace.
        reason: why.
        hint: what to do.
        is_of_disk: whether nothing is wrong with the trace, but what comes of it has no room.
    """

    rank: Rank
    reason: str
    hint: str | None = None
    is_of_disk: bool = False


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What one unit left; every trace of its batch is in a shard or among the failures.

    Attributes:
        batch: what it was given.
        shards: what was read: mostly one shard.
        failures: what was not.
        seconds: how long it took.
    """

    batch: Batch
    shards: tuple[Shard, ...]
    failures: tuple[Failure, ...]
    seconds: float = 0.0


_TEXT_SHARE = 0.36
"""What JSON text a unit can take at once, of its memory."""

LEAST_BATCH_BYTES = 48 * MB
"""Up to this much cost a batch is not split for the sake of another worker."""


def make_batches(ranks: Sequence[Rank], memory_bytes: int, worker_count: int) -> list[Batch]:
    """Put traces into batches, neighbours together; one that is large is alone."""
    most_bytes = memory_bytes * _TEXT_SHARE
    workers = max(1, worker_count)
    cost = cost_bytes([rank.text_bytes for rank in ranks])
    # As many batches as memory needs, as many for each worker, each of about the same cost: nobody
    # waits for the last one.
    for_memory = -int(-sum(rank.text_bytes for rank in ranks) // most_bytes)
    count = max(1, for_memory, min(workers, -(-cost // LEAST_BATCH_BYTES)))
    if count > 1:
        count = -(-count // workers) * workers
    even_cost = cost / count
    batches: list[Batch] = []
    waiting: list[Rank] = []
    taken_bytes = taken_cost = 0
    for rank in ranks:
        rank_cost = cost_bytes([rank.text_bytes])
        # A batch ends where its sum comes nearest to its share.
        if waiting and (
            taken_cost + rank_cost / 2 > even_cost or taken_bytes + rank.text_bytes / 2 > most_bytes
        ):
            batches.append(Batch(len(batches), tuple(waiting)))
            waiting, taken_bytes, taken_cost = [], 0, 0
        waiting.append(rank)
        taken_bytes += rank.text_bytes
        taken_cost += rank_cost
    if waiting:
        batches.append(Batch(len(batches), tuple(waiting)))
    return batches
