"""One pass of requests on an engine in this process: sends what is due, settles what comes back."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tracekit.errors import WorkloadError
from tracekit.units import NS_PER_S

from ..load.plan import LoadProgress, Progress, Prompt
from ..load.requests_file import RequestRecord
from .continuous_batching import ContinuousBatching
from .watch import RecordingWatcher

_POLL_S = 0.1
_END_TIMEOUT_S = 1.0
_PROGRESS_INTERVAL_NS = NS_PER_S // 10


IsEnough = Callable[[RequestRecord | None], bool]
"""With None: nothing more need be sent. With a request that is under way: it may be dropped."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Requests that are sent to a schedule, and are all answered before the next pass."""

    stage: Literal["warm-up", "load", "trace"]
    prompts: Sequence[Prompt]
    due_ns: Sequence[int]
    max_new_token_count: int
    concurrency: int | None
    timeout_ns: int


class PassRunner:
    """Carries out one pass.

    All times in the records are absolute readings of `time.perf_counter_ns`; `rebase` makes them
    relative.

    Args:
        engine: running.
        watcher: what the engine tells of its steps.
        wanted: the pass.
        records: one for each prompt, changed in place.
        progress: told how far it is.
    """

    def __init__(
        self,
        engine: ContinuousBatching,
        watcher: RecordingWatcher,
        wanted: Pass,
        records: Sequence[RequestRecord],
        progress: Progress,
    ) -> None:
        self._engine = engine
        self._watcher = watcher
        self._pass = wanted
        self._records = records
        self._progress = progress
        self._in_flight: dict[str, RequestRecord] = {}
        self._next_progress_ns = 0
        self._failed_count = 0
        self._output_token_count = 0
        self.finished_count = 0
        self.start_ns = 0
        self.end_ns = 0

    def so_far(self) -> tuple[int, int]:
        """Return how many requests are finished, and the ns since the start."""
        return self.finished_count, time.perf_counter_ns() - self.start_ns

    def run(self, is_enough: IsEnough | None = None) -> None:
        """Send every request when it is due, and return when all have ended.

        Args:
            is_enough: ends the pass early.

        Raises:
            WorkloadError: the engine's thread has ended, or hangs. What had come is recorded.
        """
        self.start_ns = time.perf_counter_ns()
        waiting = deque(range(len(self._records)))
        for index in waiting:
            self._records[index].arrival_ns = self.start_ns + self._pass.due_ns[index]
        try:
            while waiting or self._in_flight:
                self._send_due(waiting)
                if is_enough is not None and is_enough(None):
                    waiting.clear()
                    if all(map(is_enough, self._in_flight.values())):
                        break
                self._settle_all(self._wait_s(waiting))
                self._drop_overdue()
                self._report(time.perf_counter_ns())
        finally:
            self.end_ns = time.perf_counter_ns()
            for name in list(self._in_flight):
                self._leave(name)
            for index in waiting:
                self._records[index].reason = "the load was stopped before it was sent"
            self._report(self.end_ns, is_last=True)

    def _send_due(self, waiting: deque[int]) -> None:
        limit = self._pass.concurrency or len(self._records)
        while waiting and len(self._in_flight) < limit:
            index = waiting[0]
            record = self._records[index]
            if record.arrival_ns > time.perf_counter_ns():
                return
            waiting.popleft()
            name = str(record.request_id)
            record.engine_request_id = name
            record.attempt_count = 1
            self._in_flight[name] = record
            self._watcher.expect(name, record)
            record.sent_ns = time.perf_counter_ns()
            token_ids = self._pass.prompts[index].token_ids or ()
            self._engine.submit(name, token_ids, self._pass.max_new_token_count)

    def _wait_s(self, waiting: deque[int]) -> float:
        """Return how long to wait for a result: not beyond the next request that is due."""
        limit = self._pass.concurrency or len(self._records)
        if not waiting or len(self._in_flight) >= limit:
            return _POLL_S
        due_s = (self._records[waiting[0]].arrival_ns - time.perf_counter_ns()) / NS_PER_S
        return min(max(due_s, 0.0), _POLL_S)

    def _settle_all(self, timeout_s: float) -> None:
        output = self._engine.result(timeout_s)
        while output is not None:
            self._settle(output)
            output = self._engine.result(0)

    def _settle(self, output: Any) -> None:
        record = self._in_flight.pop(output.request_id, None)
        if record is None:  # given up before
            return
        token_count = len(output.generated_tokens)
        record.output_token_count = self._watcher.wait_for_tokens(record, token_count)
        self._watcher.forget(output.request_id)
        record.first_token_ns = record.token_ns[0] if record.token_ns else None
        record.end_ns = record.token_ns[-1] if record.token_ns else time.perf_counter_ns()
        wanted_count = self._pass.max_new_token_count
        if output.error is not None:
            record.outcome, record.reason = "bad_response", str(output.error)
        elif token_count != wanted_count:
            record.outcome = "bad_response"
            record.reason = f"the engine made {token_count} tokens instead of {wanted_count}"
        elif record.output_token_count != token_count:
            # The times would belong to the wrong tokens: better no figure than a wrong one.
            raise WorkloadError(
                f"request {output.request_id}: {record.output_token_count} tokens were seen in the "
                f"engine's steps, and {token_count} came out; tracekit does not know this version "
                "of transformers well enough",
                hint="please report it with the output of `pip show transformers`",
            )
        else:
            record.outcome = "ok"
        self.finished_count += 1
        self._failed_count += record.outcome != "ok"
        self._output_token_count += record.output_token_count
        if output.error is not None:
            self._engine.check_after_error(_END_TIMEOUT_S)

    def _drop_overdue(self) -> None:
        """Give up requests that take too long, and the engine if it makes no step at all."""
        now_ns = time.perf_counter_ns()
        limit_ns = self._pass.timeout_ns
        if self._in_flight and now_ns - self._watcher.last_step_ns > limit_ns:
            raise WorkloadError(
                f"the engine has made no step for {limit_ns / NS_PER_S:g} s, with "
                f"{len(self._in_flight)} requests under way"
            )
        for name, record in list(self._in_flight.items()):
            # They are in the order in which they were sent.
            if record.sent_ns is None or now_ns - record.sent_ns <= limit_ns:
                break
            self._leave(name)
            record.outcome = "timeout"
            record.reason = f"not done {limit_ns / NS_PER_S:g} s after it was sent"
            record.end_ns = now_ns
            self.finished_count += 1
            self._failed_count += 1

    def _leave(self, name: str) -> None:
        """Drop a request that is under way; its record says `cancelled` if nothing else is said."""
        record = self._in_flight.pop(name)
        self._watcher.forget(name)
        self._engine.cancel(name)
        record.output_token_count = len(record.token_ns)
        record.first_token_ns = record.token_ns[0] if record.token_ns else None
        record.end_ns = time.perf_counter_ns()
        record.reason = "the load ended before the request was done"

    def _report(self, now_ns: int, *, is_last: bool = False) -> None:
        if now_ns < self._next_progress_ns and not is_last:
            return
        self._next_progress_ns = now_ns + _PROGRESS_INTERVAL_NS
        tokens = sum(len(record.token_ns) for record in self._in_flight.values())
        self._progress(
            LoadProgress(
                stage=self._pass.stage,
                request_count=len(self._records),
                finished_count=self.finished_count,
                failed_count=self._failed_count,
                in_flight_count=len(self._in_flight),
                output_token_count=self._output_token_count + tokens,
                elapsed_ns=now_ns - self.start_ns,
            )
        )


def rebase(records: Sequence[RequestRecord], start_ns: int) -> None:
    """Make the times of records relative to the start of the measured load."""
    for record in records:
        if record.arrival_ns:  # its pass was begun
            record.arrival_ns -= start_ns
        record.token_ns = [instant - start_ns for instant in record.token_ns]
        if record.sent_ns is not None:
            record.sent_ns -= start_ns
        if record.first_token_ns is not None:
            record.first_token_ns -= start_ns
        if record.end_ns is not None:
            record.end_ns -= start_ns
