"""Runs a load over any transport: warm-up, measured load, and profiled load.

The profiled pass has its own records and prompts, which are not in the engine's caches.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal

from tracekit.units import NS_PER_S

from .plan import LoadPlan, LoadProgress, LoadResult, Progress, Prompt
from .records import RequestRecord

_REPORT_NS = NS_PER_S // 10


class Pass:
    """Requests that are sent on schedule and end before the next pass begins.

    Times are readings of `time.perf_counter_ns`; `RequestRecord.shift` makes them relative.
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
        self.begin_unix_ns, self.begin_ns = time.time_ns(), time.perf_counter_ns()
        for record, due_ns in zip(self.records, self.due_ns, strict=True):
            record.arrival_ns = self.begin_ns + due_ns

    def end(self, why_unsent: str) -> None:
        self.end_ns = time.perf_counter_ns()
        for record in self.records:
            if record.outcome == "cancelled" and record.reason is None:
                record.reason = why_unsent
        self._report(self.end_ns, 0)

    @property
    def wall_ns(self) -> int:
        if self.begin_ns is None:
            return 0
        return (self.end_ns or time.perf_counter_ns()) - self.begin_ns

    def so_far(self) -> tuple[int, int]:
        return self.finished_count, self.wall_ns

    def sent(self) -> None:
        self.in_flight_count += 1

    def left(self) -> None:
        self.in_flight_count -= 1

    def finished(self, record: RequestRecord) -> None:
        self.in_flight_count -= 1
        self.finished_count += 1
        self.failed_count += record.outcome != "ok"
        self.output_token_count += record.output_token_count

    def report(self, token_count: int = 0) -> None:
        now_ns = time.perf_counter_ns()
        if now_ns >= self._next_report_ns:
            self._next_report_ns = now_ns + _REPORT_NS
            self._report(now_ns, token_count)

    def _report(self, now_ns: int, token_count: int) -> None:
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


class LoadRunner:
    """The passes of one load plan; `result` is their result so far."""

    def __init__(self, plan: LoadPlan, progress: Progress) -> None:
        profile_prompts = plan.profile_prompts or plan.prompts
        records = records_of(plan)
        count, warmup_count = len(plan.prompts), len(plan.warmup_prompts)
        traced = _new_records(count + warmup_count, profile_prompts, is_profiled=True)
        self.load = Pass("load", records[:count], plan.prompts, plan.arrival_ns, progress)
        self._warmup = Pass(
            "warm-up", records[count:], plan.warmup_prompts, [0] * warmup_count, progress
        )
        self._traced = Pass("trace", traced, profile_prompts, plan.arrival_ns, progress)
        self._origin_ns = time.perf_counter_ns()
        self.result = LoadResult(records, 0, 0)

    def passes(self, *, is_traced: bool) -> Iterator[Pass]:
        """Yield the passes in order; each must be over before the next is requested."""
        self.result.start_unix_ns = time.time_ns()
        yield self._warmup
        yield self.load
        if is_traced and self.result.failure is None:
            yield self._traced

    def finish(self) -> LoadResult:
        """Return the result, with times relative to the start of the measured load.

        Unfinished requests of the profiled pass are not failures, and are dropped.
        """
        result, load = self.result, self.load
        if load.begin_ns is not None:
            self._origin_ns = load.begin_ns
            result.start_unix_ns = load.begin_unix_ns
            result.wall_ns = load.wall_ns
        answered = [record for record in self._traced.records if record.outcome != "cancelled"]
        result.records = [*result.records, *answered]
        for record in result.records:
            record.shift(self._origin_ns)
        for name in ("lost_ns", "window_start_ns", "window_end_ns"):
            at_ns = getattr(result, name)
            if at_ns is not None:
                setattr(result, name, at_ns - self._origin_ns)
        return result


def records_of(plan: LoadPlan) -> list[RequestRecord]:
    return [
        *_new_records(0, plan.prompts),
        *_new_records(len(plan.prompts), plan.warmup_prompts, is_warmup=True),
    ]


def _new_records(
    first_id: int, prompts: Sequence[Prompt], *, is_warmup: bool = False, is_profiled: bool = False
) -> list[RequestRecord]:
    return [
        RequestRecord(
            request_id=request_id,
            is_warmup=is_warmup,
            is_profiled=is_profiled,
            prompt_token_count=prompt.token_count,
            prompt_source="text" if prompt.token_ids is None else "token_ids",
        )
        for request_id, prompt in enumerate(prompts, first_id)
    ]
