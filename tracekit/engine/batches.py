"""Which traces share a batch: as many as fit, so that what a rank costs is its bytes."""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.engine.work import Batch, Rank
from tracekit.units import MB

_TEXT_SHARE = 0.36
"""What JSON text a unit can take at once, of its memory."""

LEAST_BATCH_BYTES = 48 * MB
"""Up to this much JSON text a batch is not split for the sake of another worker."""


def make_batches(ranks: Sequence[Rank], memory_bytes: int, worker_count: int) -> list[Batch]:
    """Put traces into batches, neighbours together; one that is large is alone.

    Args:
        ranks: the traces, in the order of their ids.
        memory_bytes: what one unit may take, bytes.
        worker_count: how many units are done at a time.
    """
    total_bytes = sum(rank.text_bytes for rank in ranks)
    share_bytes = max(total_bytes / max(1, worker_count), LEAST_BATCH_BYTES)
    most_bytes = min(memory_bytes * _TEXT_SHARE, share_bytes)
    # As many batches as that needs, as many for each worker, each of about the same size: nobody
    # waits for the last one.
    count = max(1, -int(-total_bytes // most_bytes))
    if count > 1:
        count = -(-count // max(1, worker_count)) * max(1, worker_count)
    even_bytes = total_bytes / count
    batches: list[Batch] = []
    waiting: list[Rank] = []
    taken_bytes = 0
    for rank in ranks:
        # A batch ends where its sum comes nearest to its share.
        if waiting and taken_bytes + rank.text_bytes / 2 > even_bytes:
            batches.append(Batch(len(batches), tuple(waiting)))
            waiting, taken_bytes = [], 0
        waiting.append(rank)
        taken_bytes += rank.text_bytes
    if waiting:
        batches.append(Batch(len(batches), tuple(waiting)))
    return batches
