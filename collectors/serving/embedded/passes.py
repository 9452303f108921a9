"""Sends a pass of requests to an engine in this process, and settles what comes back."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tracekit.errors import WorkloadError
from tracekit.units import NS_PER_S

from ..load.passes import Pass
from ..load.plan import LoadPlan
from ..load.requests_file import RequestRecord
from .continuous_batching import ContinuousBatching
from .watch import RecordingWatcher

_POLL_S = 0.1
_END_TIMEOUT_S = 1.0

IsEnough = Callable[[RequestRecord | None], bool]
"""With None: nothing more need be sent. With a request that is under way: it may be dropped."""


class PassSender:
    """Sends one pass.

    Args:
        engine: running.
        watcher: what the engine tells of its steps.
        part: the pass.
        plan: the load that it is a part of.
    """

    def __init__(
        self, engine: ContinuousBatching, watcher: RecordingWatcher, part: Pass, plan: LoadPlan
    ) -> None:
        self._engine = engine
        self._watcher = watcher
        self._pass = part
        self._plan = plan
        self._in_flight: dict[str, RequestRecord] = {}
        self._most_in_flight_count = plan.concurrency or len(part.records)

    def run(self, is_enough: IsEnough | None = None) -> None:
        """Send every request when it is due, and return when all have ended.

        Args:
            is_enough: ends the pass early.

        Raises:
            WorkloadError: the engine's thread has ended, or hangs. What had come is recorded.
        """
        self._pass.begin()
        waiting = deque(range(len(self._pass.records)))
        try:
            while waiting or self._in_flight:
                self._send_due(waiting)
                if is_enough is not None and is_enough(None):
                    waiting.clear()
                    if all(map(is_enough, self._in_flight.values())):
                        break
                self._settle_all(self._wait_s(waiting))
                self._drop_overdue()
                tokens = sum(len(record.token_ns) for record in self._in_flight.values())
                self._pass.report(tokens)
        finally:
            for name in list(self._in_flight):
                self._leave(name)
            self._pass.end("the load was stopped before it was sent")

    def _send_due(self, waiting: deque[int]) -> None:
        while waiting and len(self._in_flight) < self._most_in_flight_count:
            index = waiting[0]
            record = self._pass.records[index]
            if record.arrival_ns > time.perf_counter_ns():
                return
            waiting.popleft()
            name = str(record.request_id)
            record.engine_request_id = name
            record.attempt_count = 1
            self._in_flight[name] = record
            self._pass.sent()
            self._watcher.expect(name, record)
            record.sent_ns = time.perf_counter_ns()
            token_ids = self._pass.prompts[index].token_ids or ()
            self._engine.submit(name, token_ids, self._plan.max_new_token_count)

    def _wait_s(self, waiting: deque[int]) -> float:
        """Return how long to wait for a result: not beyond the next request that is due."""
        if not waiting or len(self._in_flight) >= self._most_in_flight_count:
            return _POLL_S
        due_s = (self._pass.records[waiting[0]].arrival_ns - time.perf_counter_ns()) / NS_PER_S
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
        wanted_count = self._plan.max_new_token_count
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
        self._pass.finished(record)
        if output.error is not None:
            self._engine.check_after_error(_END_TIMEOUT_S)

    def _drop_overdue(self) -> None:
        """Give up requests that take too long, and the engine if it makes no step at all."""
        now_ns = time.perf_counter_ns()
        limit_ns = self._plan.timeout_ns
        if self._in_flight and now_ns - self._watcher.last_step_ns > limit_ns:
            raise WorkloadError(
                f"the engine has made no step for {limit_ns / NS_PER_S:g} s, with "
                f"{len(self._in_flight)} requests under way"
            )
        for name, record in list(self._in_flight.items()):
            # They are in the order in which they were sent.
            if record.sent_ns is None or now_ns - record.sent_ns <= limit_ns:
                break
            self._drop(name)
            record.outcome = "timeout"
            record.reason = f"not done {limit_ns / NS_PER_S:g} s after it was sent"
            record.end_ns = now_ns
            self._pass.finished(record)

    def _leave(self, name: str) -> None:
        """Drop a request that is under way at the end of the pass."""
        record = self._drop(name)
        record.reason = "the load ended before the request was done"
        self._pass.left()

    def _drop(self, name: str) -> RequestRecord:
        """Let the engine work no more on a request; its record says `cancelled` so far."""
        record = self._in_flight.pop(name)
        self._watcher.forget(name)
        self._engine.cancel(name)
        record.output_token_count = len(record.token_ns)
        record.first_token_ns = record.token_ns[0] if record.token_ns else None
        record.end_ns = time.perf_counter_ns()
        return record
