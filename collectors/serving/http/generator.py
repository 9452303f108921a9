"""Asyncio load generator that times every request.

Each request has its own connection, so requests neither wait for each other nor fail together. Each
gets a recorded outcome. Connections of a burst are opened in advance. The client's own CPU load is
reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any

from msgspec.structs import replace

from tracekit.units import NS_PER_MS, NS_PER_S

from ...process.ending import signals_as_cancellation
from ..plan import LoadPlan, LoadResult, Mark, ProfilePlan, Progress
from ..records import RequestRecord
from ..runner import LoadRunner, Pass
from .answer import Attempt
from .client import TEXT_LENGTH, AnswerError, Connection, HttpClient
from .dialect import Call, Dialect, plain

DEFAULT_AFTER_PCT = 40
DEFAULT_LENGTH_NS = 2 * NS_PER_S

_POLL_S = 0.01
_CONNECT_S = 10.0
# Time for requests in flight to fail by themselves after the server has exited.
_LOST_S = 1.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_BUSY_PCT = 90
_LATE_NS = 100 * NS_PER_MS
_LATE_PCT = 10
_START_TIMEOUT_S = 60.0
_INTERRUPTED_TIMEOUT_S = 5.0


class LoadGenerator:
    """Executes one load plan against one server; without `start_call`, there is no profile.

    `stop_timeout_s` limits the call that stops the profile, during which some engines write traces.
    `ended` returns the exit description of a server that has exited, else None.
    """

    def __init__(
        self,
        dialect: Dialect,
        client: HttpClient,
        plan: LoadPlan,
        progress: Progress,
        *,
        start_call: Call | None = None,
        stop_timeout_s: float = 600.0,
        ended: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._dialect = dialect
        self._client = client
        self._plan = plan
        self._limit_s = plan.timeout_ns / NS_PER_S
        self._start_call = start_call
        self._stop_timeout_s = stop_timeout_s
        self._ended = ended
        self._runner = LoadRunner(plan, progress)
        self._result = self._runner.result
        self._cpu_ns = time.process_time_ns()
        self._lags_ns: list[int] = []

    def run(self) -> LoadResult:
        return asyncio.run(self._run())

    async def _run(self) -> LoadResult:
        task = asyncio.current_task()
        assert task is not None
        load = asyncio.create_task(self._run_load())
        end = asyncio.create_task(self._end_of_server())
        # A signal ends the load early without an exception.
        with signals_as_cancellation(task, asyncio.get_running_loop()):
            try:
                await asyncio.wait((load, end), return_when=asyncio.FIRST_COMPLETED)
                if not load.done():
                    self._result.failure = end.result()
                    self._result.lost_ns = time.perf_counter_ns()
                    await asyncio.wait((load,), timeout=_LOST_S)
            except asyncio.CancelledError:
                self._result.interrupted = True
                self._result.lost_ns = time.perf_counter_ns()
            end.cancel()
            if not load.done():
                load.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await load
        return self._runner.finish()

    async def _end_of_server(self) -> str:
        while (how := self._ended()) is None:
            await asyncio.sleep(_POLL_S)
        return how

    async def _run_load(self) -> None:
        start_call = self._start_call
        for part in self._runner.passes(is_traced=start_call is not None):
            if part.stage == "trace" and start_call is not None:
                await self._trace(part, start_call)
                continue
            try:
                await self._send(part)
            finally:
                if part is self._runner.load and part.begin_ns is not None:
                    self._note_client_load(part.wall_ns, time.process_time_ns() - self._cpu_ns)

    async def _trace(self, part: Pass, start_call: Call) -> None:
        """Send the load again until the profile is over; profiler errors become a note."""
        result, plan = self._result, self._profile_plan()
        load: asyncio.Task[None] | None = None
        try:
            if plan.after is None:
                await self._start_profile(start_call)
            load = asyncio.create_task(self._send(part))
            if plan.after is not None:
                await self._until(plan.after, part, load, time.perf_counter_ns())
                if load.done():
                    result.profile_note = (
                        f"no profile: the load ended before the profile started, after {plan.after}"
                    )
                else:
                    await self._start_profile(start_call)
            if result.window_start_ns is not None:
                count = part.finished_count
                await self._until(plan.length, part, load, result.window_start_ns, count)
        except asyncio.CancelledError:
            self._stop_timeout_s = _INTERRUPTED_TIMEOUT_S
        if result.window_start_ns is not None:
            result.window_end_ns = time.perf_counter_ns()
            stop = self._dialect.stop_profile
            problem = None if stop is None else await self._call(stop, self._stop_timeout_s)
            if problem is not None:
                result.profile_note = f"the profile could not be stopped: {problem}"
        if load is not None:
            load.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await load

    async def _start_profile(self, start_call: Call) -> None:
        try:
            self._result.profile_note = await self._call(start_call, _START_TIMEOUT_S)
        finally:
            # After an interrupt, the server may be profiling without having answered.
            if self._result.profile_note is None:
                self._result.window_start_ns = time.perf_counter_ns()

    async def _until(
        self,
        mark: Mark | None,
        part: Pass,
        load: asyncio.Task[None],
        begin_ns: int,
        begin_count: int = 0,
    ) -> None:
        """Wait for a mark or the end of the load."""
        while not load.done():
            count = part.finished_count - begin_count
            if mark is not None and mark.is_reached(count, time.perf_counter_ns() - begin_ns):
                return
            await asyncio.wait((load,), timeout=_POLL_S)

    async def _call(self, call: Call, timeout_s: float) -> str | None:
        data = b"" if call.body is None else json.dumps(call.body).encode()
        answer = await self._client.ask(call.method, call.path, data, timeout_s)
        if answer.problem is not None:
            return f"{call.path} failed: {answer.problem}"
        if 200 <= answer.status < 300:
            return None
        return self._dialect.refusal(answer.status, plain(answer.text(), TEXT_LENGTH))

    def _profile_plan(self) -> ProfilePlan:
        """Return the profile plan; by default, short loads are profiled completely."""
        plan, wall_ns = self._plan.profile, self._runner.load.wall_ns
        if plan.after is not None or plan.length is not None or wall_ns <= DEFAULT_LENGTH_NS:
            return plan
        after = Mark(duration_ns=wall_ns * DEFAULT_AFTER_PCT // 100)
        return replace(plan, after=after, length=Mark(duration_ns=DEFAULT_LENGTH_NS))

    async def _send(self, part: Pass) -> None:
        limit = self._plan.concurrency
        gate = asyncio.Semaphore(limit) if limit else contextlib.nullcontext()
        ready = await self._ready(part)
        part.begin()
        if part.stage == "load":
            self._cpu_ns = time.process_time_ns()
        reporter = asyncio.create_task(self._report(part))
        tasks = []
        try:
            for record, (data, connection) in zip(part.records, ready, strict=True):
                wait_ns = record.arrival_ns - time.perf_counter_ns()
                if wait_ns > 0:
                    await asyncio.sleep(wait_ns / NS_PER_S)
                if self._result.failure is not None:
                    break
                request = self._request(part, record, gate, data, connection)
                tasks.append(asyncio.create_task(request))
            await asyncio.gather(*tasks)
        finally:
            for _, connection in ready:
                if connection is not None:
                    connection.close()
            for task in (reporter, *tasks):
                task.cancel()
            await asyncio.gather(reporter, *tasks, return_exceptions=True)
            part.end(
                "the load was stopped before the request was sent"
                if self._result.failure is None
                else "the server ended before the request was sent"
            )

    async def _ready(self, part: Pass) -> list[tuple[bytes, Connection | None]]:
        """Encode all requests, and open the connections of a burst in advance to keep it short."""
        count = sum(due_ns <= 0 for due_ns in part.due_ns)
        count = min(count, self._plan.concurrency or count)
        limit_s = min(_CONNECT_S, self._limit_s)
        connects = [
            asyncio.create_task(asyncio.wait_for(self._client.connect(), limit_s))
            for _ in range(count)
        ]
        try:
            opened = await asyncio.gather(*connects, return_exceptions=True)
        except asyncio.CancelledError:
            for one in await asyncio.gather(*connects, return_exceptions=True):
                if isinstance(one, Connection):
                    one.close()
            raise
        # If a connection fails now, its request retries and records the outcome.
        connections = [item if isinstance(item, Connection) else None for item in opened]
        path, length = self._dialect.generate_path, self._plan.max_new_token_count
        requests = [
            self._client.request("POST", path, self._dialect.encoded(prompt, length))
            for prompt in part.prompts
        ]
        return list(zip_longest(requests, connections))

    async def _request(
        self,
        part: Pass,
        record: RequestRecord,
        gate: Any,
        data: bytes,
        connection: Connection | None,
    ) -> None:
        """Run one request with its retries; it always gets an outcome."""
        async with gate:
            if self._result.failure is not None:
                return
            part.sent()
            try:
                attempt = await self._attempt(record, data, connection)
                # Random pauses prevent all failed requests from retrying at the same time.
                jitter = random.Random(self._plan.seed * 1_000_003 + record.request_id)
                while not attempt.is_final and record.attempt_count <= self._plan.retry_count:
                    pause_s = _pause_s(attempt.headers)
                    pause_s = pause_s or _FIRST_PAUSE_S * 2 ** (record.attempt_count - 1)
                    await asyncio.sleep(min(pause_s, _LONGEST_PAUSE_S) * (0.5 + jitter.random()))
                    attempt = await self._attempt(record, data)
            finally:
                part.finished(record)

    async def _attempt(
        self, record: RequestRecord, data: bytes, connection: Connection | None = None
    ) -> Attempt:
        attempt = Attempt(self._dialect, record)
        try:
            await self._client.exchange(data, attempt, self._limit_s, connection)
            attempt.end()
        except AnswerError as error:
            attempt.fail(error.outcome, str(error))
        except asyncio.CancelledError:
            attempt.fail("cancelled", "the load was stopped")
            raise
        return attempt

    async def _report(self, part: Pass) -> None:
        due_ns = time.perf_counter_ns()
        while True:
            if part.stage == "load":
                self._lags_ns.append(max(0, time.perf_counter_ns() - due_ns))
            part.report()
            due_ns = time.perf_counter_ns() + round(_POLL_S * NS_PER_S)
            await asyncio.sleep(_POLL_S)

    def _note_client_load(self, wall_ns: int, cpu_ns: int) -> None:
        result = self._result
        cpu_pct = 100 * cpu_ns / max(1, wall_ns)
        lags_ns = sorted(self._lags_ns) or [0]
        result.extra["client"] = {
            "cpu_pct": round(cpu_pct, 1),
            "loop_lag_p99_ns": lags_ns[(len(lags_ns) - 1) * 99 // 100],
            "loop_lag_max_ns": lags_ns[-1],
        }
        # In the first second, startup dominates the CPU load.
        if cpu_pct > _BUSY_PCT and wall_ns > NS_PER_S:
            result.notes.append(
                f"the client was busy {cpu_pct:.0f} % of the time, which adds to the latencies"
            )
        elif lags_ns[-1] > max(_LATE_NS, wall_ns * _LATE_PCT // 100):
            result.notes.append(
                f"the client waited up to {lags_ns[-1] // NS_PER_MS} ms for a CPU core, "
                "which limits the accuracy of latencies"
            )


def _pause_s(headers: Mapping[str, str]) -> float:
    try:
        return max(0.0, float(headers.get("retry-after", 0)))
    except ValueError:  # a date
        return 0.0
