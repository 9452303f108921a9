"""An asyncio client that puts a serving engine under load and times every request.

One thread and one event loop keep all requests in flight. Each request has a connection of its own,
so that none waits for another or fails with it, and ends with a recorded outcome whatever happens.
The connections of a burst are opened before it, so that it arrives as a burst.
Times are taken when a packet is read, before anything in it or in another is looked at. How busy
the client itself was is measured and reported: a client that is the bottleneck must say so.

A server that is known to have ended ends the load: nobody is left to answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tracekit.units import NS_PER_MS, NS_PER_S

from ...process.signals import signals_as_cancellation
from ..load.passes import Pass
from ..load.plan import LoadPlan, LoadResult, Mark, ProfilePlan, Progress, Prompt
from ..load.requests_file import RequestRecord
from ..load.runner import LoadRunner
from .attempt import Attempt
from .client import HttpClient
from .dialect import Call, Dialect
from .exchange import (
    BrokenConnectionError,
    Connection,
    NotHttpError,
    connection_problem,
    length_line,
)
from .profile_window import ProfileWindow

DEFAULT_AFTER_PCT = 40
DEFAULT_LENGTH_NS = 2 * NS_PER_S

_POLL_S = 0.01
_CONNECT_S = 10.0
# Requests that are on their way when the server ends learn it from their connections.
_LOST_S = 1.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_BUSY_PCT = 90
_LATE_NS = 100 * NS_PER_MS
_LATE_PCT = 10


class LoadGenerator:
    """Carries out one load plan against one server.

    Args:
        dialect: how to talk to the engine.
        client: talks to the server.
        plan: what to send and when.
        progress: takes the state of the load about ten times a second.
        start_call: starts the profile, or None for a load without one.
        stop_timeout_s: how long stopping the profile may take; some engines write traces then.
        ended: says what the server ended with, once it has; None while it runs or nobody knows.
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
        self._ended = ended
        self._plan = plan
        self._start_call = start_call
        self._stop_timeout_s = stop_timeout_s
        self._client = client
        self._head = client.head("POST", dialect.generate_path)
        self._runner = LoadRunner(plan, self, progress)
        self._result = self._runner.result
        self._cpu_ns = time.process_time_ns()
        self._lags_ns: list[int] = []

    def run(self) -> LoadResult:
        """Carry out the load in an event loop of its own; see `ServingEngine.run`.

        Raises:
            KeyboardInterrupt: on a second Ctrl-C, while the first is being obeyed.
        """
        return asyncio.run(self._run_until_signalled())

    async def run_in_loop(self) -> LoadResult:
        """Carry out the load; cancelling it ends the load early and raises nothing."""
        is_traced = self._start_call is not None
        load = asyncio.create_task(self._runner.carry_out(is_traced=is_traced))
        end = asyncio.create_task(self._end_of_server())
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
        return self._runner.settle()

    async def _run_until_signalled(self) -> LoadResult:
        task = asyncio.current_task()
        if task is None:  # not in a coroutine that `asyncio.run` runs
            return await self.run_in_loop()
        with signals_as_cancellation(task, asyncio.get_running_loop()):
            return await self.run_in_loop()

    async def _end_of_server(self) -> str:
        """Return what the server ended with, when it has."""
        while True:
            how = self._ended()
            if how is not None:
                return how
            await asyncio.sleep(_POLL_S)

    async def measure(self, part: Pass, result: LoadResult) -> None:
        """Send the requests that count, and note how busy this client was."""
        begin_ns = time.perf_counter_ns()
        try:
            await self.send(part)
        finally:
            end_ns = part.end_ns or time.perf_counter_ns()
            cpu_ns = time.process_time_ns() - self._cpu_ns
            self._state_client(result, end_ns - (part.begin_ns or begin_ns), cpu_ns)

    async def trace(self, part: Pass, result: LoadResult) -> None:
        """Send the load once more, until the profile's window is over."""
        if self._start_call is None:
            return
        window = ProfileWindow(
            self._dialect,
            self._client,
            self._profile_plan(result),
            self._start_call,
            self._stop_timeout_s,
            lambda: (part.finished_count, time.perf_counter_ns()),
        )
        await window.before_load()
        load = asyncio.create_task(self.send(part))
        profile = asyncio.create_task(window.run())
        is_stopped = False
        try:
            # Whichever is over first ends the other: a load of no use, or a window without a load.
            await asyncio.wait((load, profile), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            is_stopped = True
        window.end_of_load(interrupted=is_stopped)
        await profile
        load.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await load
        result.window_start_ns = window.start_ns
        result.window_end_ns = window.end_ns
        result.profile_note = window.note

    def _profile_plan(self, result: LoadResult) -> ProfilePlan:
        """Fill in what was not asked for, from how long the load took without a profile.

        A short load is profiled as a whole; of a longer one a piece from its middle, where requests
        come and go.
        """
        plan = self._plan.profile
        if plan.after is not None or plan.length is not None:
            return plan
        if result.wall_ns <= DEFAULT_LENGTH_NS:
            return plan
        after = Mark(duration_ns=result.wall_ns * DEFAULT_AFTER_PCT // 100)
        return replace(plan, after=after, length=Mark(duration_ns=DEFAULT_LENGTH_NS))

    async def send(self, part: Pass) -> None:
        """Send every request of a pass when it is due, and wait for all."""
        limit = self._plan.concurrency
        gate = asyncio.Semaphore(limit) if limit else contextlib.nullcontext()
        ready = await self._ready(part)
        part.begin()
        if part.stage == "load":
            self._cpu_ns = time.process_time_ns()
        reporter = asyncio.create_task(self._report(part))
        tasks = []
        try:
            for record, prompt in zip(part.records, part.prompts, strict=True):
                wait_ns = record.arrival_ns - time.perf_counter_ns()
                if wait_ns > 0:
                    await asyncio.sleep(wait_ns / NS_PER_S)
                if self._result.failure is not None:
                    break
                data, connection = ready.popleft() if ready else (self._encoded(prompt), None)
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
                "the load was stopped before it was sent"
                if self._result.failure is None
                else "the server had ended before it was sent"
            )

    async def _ready(self, part: Pass) -> deque[tuple[bytes, Connection | None]]:
        """Prepare what is due at the very start: its body, and an open connection.

        A burst would else arrive at the server over as long as the client takes to connect.
        """
        count = sum(due_ns <= 0 for due_ns in part.due_ns)
        count = min(count, self._plan.concurrency or count)
        limit_s = min(_CONNECT_S, self._plan.timeout_ns / NS_PER_S)
        opened = await asyncio.gather(
            *(asyncio.wait_for(self._client.connect(), limit_s) for _ in range(count)),
            return_exceptions=True,
        )
        # One that cannot be opened now is tried again when it is needed, and recorded then.
        connections = [item if isinstance(item, Connection) else None for item in opened]
        bodies = [self._encoded(prompt) for prompt in part.prompts[:count]]
        return deque(zip(bodies, connections, strict=True))

    def _encoded(self, prompt: Prompt) -> bytes:
        body = self._dialect.body(prompt, self._plan.max_new_token_count)
        return json.dumps({**body, **self._dialect.extra_body}).encode()

    async def _request(
        self,
        part: Pass,
        record: RequestRecord,
        gate: Any,
        data: bytes,
        connection: Connection | None,
    ) -> None:
        """Carry out one request with its retries; every way out leaves an outcome."""
        # The gaps between attempts differ from request to request, or all would come at once again.
        jitter = random.Random(self._plan.seed * 1_000_003 + record.request_id)
        async with gate:
            if self._result.failure is not None:
                return
            part.sent()
            try:
                while True:
                    pause_s = await self._attempt(record, data, connection)
                    connection = None
                    if pause_s is None or record.attempt_count > self._plan.retry_count:
                        break
                    pause_s = pause_s or _FIRST_PAUSE_S * 2 ** (record.attempt_count - 1)
                    await asyncio.sleep(min(pause_s, _LONGEST_PAUSE_S) * (0.5 + jitter.random()))
            finally:
                part.finished(record)

    async def _attempt(
        self, record: RequestRecord, data: bytes, connection: Connection | None
    ) -> float | None:
        """Send a request once and take its answer.

        Returns:
            None if that settles it; else how long to wait before another attempt, 0 if the server
            did not say.
        """
        limit_s = self._plan.timeout_ns / NS_PER_S
        deadline = asyncio.timeout(limit_s)
        attempt = Attempt(self._dialect, record, time.perf_counter_ns, deadline)
        attempt.begin()
        try:
            async with deadline:
                if connection is not None and not connection.is_open:
                    connection.close()
                    connection = None
                if connection is None:
                    connection = await self._client.connect()
                await connection.exchange(self._head + length_line(data), data, attempt)
            attempt.end_of_answer()
        except TimeoutError:
            # The connection may stay open behind a whole answer.
            if attempt.is_complete:
                attempt.settle()
            else:
                attempt.end("timeout", f"not done {limit_s:g} s after it was sent")
                attempt.is_settled = True
        except BrokenConnectionError as error:
            if attempt.is_complete:
                attempt.settle()
            else:
                attempt.end("broken_stream", f"{attempt.progress()}: {error}")
        except NotHttpError as error:
            attempt.end("bad_response", f"no HTTP: {error}")
            attempt.is_settled = True
        except (OSError, UnicodeError) as error:
            attempt.end("refused", connection_problem(error))
        except asyncio.CancelledError:
            attempt.end("cancelled", f"the load was stopped {attempt.progress()}")
            raise
        return None if attempt.is_settled else _pause_s(attempt.headers)

    async def _report(self, part: Pass) -> None:
        """Report progress, and measure how late the event loop is."""
        due_ns = time.perf_counter_ns()
        while True:
            if part.stage == "load":
                self._lags_ns.append(max(0, time.perf_counter_ns() - due_ns))
            part.report()
            due_ns = time.perf_counter_ns() + round(_POLL_S * NS_PER_S)
            await asyncio.sleep(_POLL_S)

    def _state_client(self, result: LoadResult, wall_ns: int, cpu_ns: int) -> None:
        """Record how busy this client was, and warn if it was too busy to be believed."""
        cpu_pct = 100 * cpu_ns / max(1, wall_ns)
        lags_ns = sorted(self._lags_ns) or [0]
        result.extra["client"] = {
            "cpu_pct": round(cpu_pct, 1),
            "loop_lag_p99_ns": lags_ns[(len(lags_ns) - 1) * 99 // 100],
            "loop_lag_max_ns": lags_ns[-1],
        }
        # A load of a moment is all start-up, and says nothing about the client.
        if cpu_pct > _BUSY_PCT and wall_ns > NS_PER_S:
            result.notes.append(
                f"the client was busy {cpu_pct:.0f} % of the time: the latencies are partly its own"
            )
        elif lags_ns[-1] > max(_LATE_NS, wall_ns * _LATE_PCT // 100):
            result.notes.append(
                f"the client was kept waiting for a core, up to {lags_ns[-1] // NS_PER_MS} ms: "
                "latencies are no more exact than that"
            )


def _pause_s(headers: Mapping[str, str]) -> float:
    """Return how long a server asks to be left alone, 0 if it does not say."""
    try:
        return max(0.0, float(headers.get("retry-after", 0)))
    except ValueError:  # a date
        return 0.0
