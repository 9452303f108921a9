"""One sending of the requests of a load, and how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .plan import Prompt
from .requests_file import RequestRecord


@dataclass(slots=True)
class Pass:
    """One sending of requests, and how far it is."""

    stage: Literal["warm-up", "load", "trace"]
    records: list[RequestRecord]
    prompts: Sequence[Prompt]
    due_ns: Sequence[int]
    finished_count: int = 0
    failed_count: int = 0
    in_flight_count: int = 0
    output_token_count: int = 0


def new_records(
    first_id: int, count: int, *, is_warmup: bool = False, is_profiled: bool = False
) -> list[RequestRecord]:
    """Return records of requests that have not been sent.

    Args:
        first_id: number of the first; the others follow.
        count: how many.
        is_warmup: whether they are of the warm-up.
        is_profiled: whether they are sent under the profiler.
    """
    return [
        RequestRecord(first_id + index, is_warmup=is_warmup, is_profiled=is_profiled)
        for index in range(count)
    ]


def shift(record: RequestRecord, by_ns: int) -> None:
    """Move the times of a record to an origin that is later by so much."""
    record.arrival_ns -= by_ns
    record.token_ns = [at_ns - by_ns for at_ns in record.token_ns]
    if record.sent_ns is not None:
        record.sent_ns -= by_ns
    if record.first_token_ns is not None:
        record.first_token_ns -= by_ns
    if record.end_ns is not None:
        record.end_ns -= by_ns
