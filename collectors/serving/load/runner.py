"""A load from its beginning to its end, over whatever transport: warm-up, measured load, profile.

The load is sent twice when there is a profile: the first time is what the figures are of; the
second time, with other prompts so that no cache of the engine knows them, lasts until the profile's
window is over. Its requests are recorded as `is_profiled`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from .passes import Pass, shift
from .plan import LoadPlan, LoadResult, Progress, Prompt
from .requests_file import RequestRecord


class Transport(Protocol):
    """Takes the requests of a load to an engine, and writes down what comes back."""

    async def send(self, part: Pass) -> None:
        """Send every request of a pass when it is due, and wait until all are over."""

    async def measure(self, part: Pass, result: LoadResult) -> None:
        """Send the requests that count, and note in the result what else was seen meanwhile."""

    async def trace(self, part: Pass, result: LoadResult) -> None:
        """Send requests under the profiler, and note what became of its window."""


class LoadRunner:
    """Carries out one load plan over a transport; `result` is what it has come to.

    Args:
        plan: what to send and when.
        transport: takes it there.
        progress: told how far the load is.
    """

    def __init__(self, plan: LoadPlan, transport: Transport, progress: Progress) -> None:
        self._transport = transport
        profile_prompts = plan.profile_prompts or plan.prompts
        records = records_of(plan)
        count, warmup_count = len(plan.prompts), len(plan.warmup_prompts)
        traced = new_records(count + warmup_count, profile_prompts, is_profiled=True)
        self._load = Pass("load", records[:count], plan.prompts, plan.arrival_ns, progress)
        self._warmup = Pass(
            "warm-up", records[count:], plan.warmup_prompts, [0] * warmup_count, progress
        )
        self._traced = Pass("trace", traced, profile_prompts, plan.arrival_ns, progress)
        self._origin_ns = time.perf_counter_ns()
        self.result = LoadResult(records, 0, 0)

    async def carry_out(self, *, is_traced: bool) -> None:
        """Carry out the load, and once more for the profile if it is to be traced.

        What the transport raises ends it; `settle` makes a result of what there is.
        """
        self.result.start_unix_ns = time.time_ns()
        await self._transport.send(self._warmup)
        try:
            await self._transport.measure(self._load, self.result)
        finally:
            if self._load.begin_ns is not None:
                self._origin_ns = self._load.begin_ns
                self.result.start_unix_ns = self._load.begin_unix_ns
                end_ns = self._load.end_ns or time.perf_counter_ns()
                self.result.wall_ns = end_ns - self._origin_ns
        if is_traced and self.result.failure is None:
            await self._transport.trace(self._traced, self.result)

    def settle(self) -> LoadResult:
        """Return the result, with all times counted from the beginning of the measured load.

        The pass under the profiler ends with its window: what had not been served by then was sent
        for nothing, and is no failure.
        """
        result = self.result
        answered = [record for record in self._traced.records if record.outcome != "cancelled"]
        result.records = [*result.records, *answered]
        for record in result.records:
            shift(record, self._origin_ns)
        for name in ("lost_ns", "window_start_ns", "window_end_ns"):
            at_ns = getattr(result, name)
            if at_ns is not None:
                setattr(result, name, at_ns - self._origin_ns)
        return result


def records_of(plan: LoadPlan) -> list[RequestRecord]:
    """Return new records of the requests that count, and of those of the warm-up behind them."""
    return [
        *new_records(0, plan.prompts),
        *new_records(len(plan.prompts), plan.warmup_prompts, is_warmup=True),
    ]


def new_records(
    first_id: int,
    prompts: Sequence[Prompt],
    *,
    is_warmup: bool = False,
    is_profiled: bool = False,
) -> list[RequestRecord]:
    """Return records of requests that have not been sent.

    Args:
        first_id: number of the first; the others follow.
        prompts: those of the requests.
        is_warmup: whether they are of the warm-up.
        is_profiled: whether they are sent under the profiler.
    """
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
