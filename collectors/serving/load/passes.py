"""One sending of the requests of a load, and how far it is: the same over every transport."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

from tracekit.units import NS_PER_S

from .plan import LoadProgress, Progress, Prompt
from .requests_file import RequestRecord

_REPORT_NS = NS_PER_S // 10


class Pass:
    """Requests that are sent to a schedule, and are all over before the next pass.

    All times are readings of `time.perf_counter_ns`; `shift` makes them relative.

    Args:
        stage: what the pass is for.
        records: one for each request, changed in place.
        prompts: those of the requests.
        due_ns: when each is to be sent, from the beginning of the pass.
        progress: told how far it is, about ten times a second.
    """

    def __init__(
        self,
        stage: Literal["warm-up", "load", "trace"],
        records: Sequence[RequestRecord],
        prompts: Sequence[Prompt],
        due_ns: Sequence[int],
        progress: Progress,
    ) -> None:
        self.stage = stage
        self.records = records
        self.prompts = prompts
        self.due_ns = due_ns
        self.begin_ns: int | None = None
        self.begin_unix_ns = 0
        self.end_ns: int | None = None
        self.finished_count = 0
        self.failed_count = 0
        self.in_flight_count = 0
        self.output_token_count = 0
        self._progress = progress
        self._next_report_ns = 0

    def begin(self) -> None:
        """Let requests be due from now on."""
        self.begin_unix_ns, self.begin_ns = time.time_ns(), time.perf_counter_ns()
        for record, due_ns in zip(self.records, self.due_ns, strict=True):
            record.arrival_ns = self.begin_ns + due_ns

    def end(self, why_unsent: str) -> None:
        """End the pass; says why in the records of requests that were not sent."""
        self.end_ns = time.perf_counter_ns()
        for record in self.records:
            if record.outcome == "cancelled" and record.reason is None:
                record.reason = why_unsent
        self._tell(self.end_ns, 0)

    def so_far(self) -> tuple[int, int]:
        """Return how many requests are finished, and the ns since the pass began."""
        elapsed_ns = 0 if self.begin_ns is None else time.perf_counter_ns() - self.begin_ns
        return self.finished_count, elapsed_ns

    def sent(self) -> None:
        """Count a request as under way."""
        self.in_flight_count += 1

    def left(self) -> None:
        """Count a request as under way no more that has not finished."""
        self.in_flight_count -= 1

    def finished(self, record: RequestRecord) -> None:
        """Count a request that was under way as finished, whatever became of it."""
        self.in_flight_count -= 1
        self.finished_count += 1
        self.failed_count += record.outcome != "ok"
        self.output_token_count += record.output_token_count

    def report(self, token_count: int = 0) -> None:
        """Tell how far the pass is, if that was not told just now.

        Args:
            token_count: tokens of requests that are under way.
        """
        now_ns = time.perf_counter_ns()
        if now_ns >= self._next_report_ns:
            self._next_report_ns = now_ns + _REPORT_NS
            self._tell(now_ns, token_count)

    def _tell(self, now_ns: int, token_count: int) -> None:
        if self.records and self.begin_ns is not None:
            self._progress(
                LoadProgress(
                    stage=self.stage,
                    request_count=len(self.records),
                    finished_count=self.finished_count,
                    failed_count=self.failed_count,
                    in_flight_count=self.in_flight_count,
                    output_token_count=self.output_token_count + token_count,
                    elapsed_ns=now_ns - self.begin_ns,
                )
            )


def shift(record: RequestRecord, by_ns: int) -> None:
    """Move the times of a record to an origin that is later by so much."""
    if record.arrival_ns:  # its pass was begun
        record.arrival_ns -= by_ns
    record.token_ns = [at_ns - by_ns for at_ns in record.token_ns]
    if record.sent_ns is not None:
        record.sent_ns -= by_ns
    if record.first_token_ns is not None:
        record.first_token_ns -= by_ns
    if record.end_ns is not None:
        record.end_ns -= by_ns
