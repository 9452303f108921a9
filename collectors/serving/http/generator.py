"""An asyncio client that puts a serving engine under load and times every request.

One thread and one event loop keep all requests in flight. Each request has a connection of its own,
so that none waits for another or fails with it, and ends with a recorded outcome whatever happens.
The connections of a burst are opened before it, so that it arrives as a burst.
Times are taken when a packet is read, before anything in it or in another is looked at. How busy
the client itself was is measured and reported: a client that is the bottleneck must say so.

The load is sent twice when there is a profile, as with the embedded engine: the first time is what
the figures are of; the second time, with other prompts so that no cache of the engine knows them,
lasts until the profile's window is over. Its requests are recorded as `is_profiled`.

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
from ..load.passes import Pass, new_records, shift
from ..load.plan import LoadPlan, LoadProgress, LoadResult, Mark, ProfilePlan, Progress, Prompt
from ..load.requests_file import RequestRecord
from .attempt import Attempt
from .dialect import Call, Dialect
from .exchange import (
    Address,
    BrokenConnectionError,
    Connection,
    NotHttpError,
    connect,
    connection_problem,
    length_line,
    request_head,
)
from .profile_window import ProfileWindow

DEFAULT_AFTER_PCT = 40
DEFAULT_LENGTH_NS = 2 * NS_PER_S

_POLL_S = 0.01
_PROGRESS_S = 0.1
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
        url: the server, without a path.
        plan: what to send and when.
        progress: takes the state of the load about ten times a second.
        start_call: starts the profile, or None for a load without one.
        stop_timeout_s: how long stopping the profile may take; some engines write traces then.
        headers: sent with every request.
        ended: says what the server ended with, once it has; None while it runs or nobody knows.
    """

    def __init__(
        self,
        dialect: Dialect,
        url: str,
        plan: LoadPlan,
        progress: Progress,
        *,
        start_call: Call | None = None,
        stop_timeout_s: float = 600.0,
        headers: dict[str, str] | None = None,
        ended: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._dialect = dialect
        self._ended = ended
        self._plan = plan
        self._progress = progress
        self._start_call = start_call
        self._stop_timeout_s = stop_timeout_s
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._address = Address.of(url)
        self._head = request_head(self._address, "POST", dialect.generate_path, self._headers)
        count, warmup_count = len(plan.prompts), len(plan.warmup_prompts)
        self._load = Pass("load", new_records(0, count), plan.prompts, plan.arrival_ns)
        self._warmup = Pass(
            "warm-up",
            new_records(count, warmup_count, is_warmup=True),
            plan.warmup_prompts,
            [0] * warmup_count,
        )
        self._traced = Pass(
            "trace",
            new_records(count + warmup_count, count, is_profiled=True),
            plan.profile_prompts or plan.prompts,
            plan.arrival_ns,
        )
        self._result = LoadResult([*self._load.records, *self._warmup.records], 0, 0)
        self._origin_ns = time.perf_counter_ns()
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
        load = asyncio.create_task(self._carry_out())
        end = asyncio.create_task(self._end_of_server())
        try:
            await asyncio.wait((load, end), return_when=asyncio.FIRST_COMPLETED)
            if not load.done():
                self._result.failure = end.result()
                self._result.lost_ns = self._now()
                await asyncio.wait((load,), timeout=_LOST_S)
        except asyncio.CancelledError:
            self._result.interrupted = True
            self._result.lost_ns = self._now()
        end.cancel()
        if not load.done():
            load.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await load
        return self._result

    async def _run_until_signalled(self) -> LoadResult:
        task = asyncio.current_task()
        if task is None:  # not in a coroutine that `asyncio.run` runs
            return await self.run_in_loop()
        with signals_as_cancellation(task, asyncio.get_running_loop()):
            return await self.run_in_loop()

    async def _carry_out(self) -> None:
        await self._send(self._warmup)
        await self._measure()
        if self._start_call is not None and self._result.failure is None:
            await self._trace(self._start_call)

    async def _end_of_server(self) -> str:
        """Return what the server ended with, when it has."""
        while True:
            how = self._ended()
            if how is not None:
                return how
            await asyncio.sleep(_POLL_S)

    def _begin_load(self) -> None:
        """Let times count from now on."""
        shift_ns = self._now()
        self._origin_ns += shift_ns
        self._result.start_unix_ns = time.time_ns()
        self._cpu_ns = time.process_time_ns()
        for record in self._warmup.records:
            shift(record, shift_ns)

    async def _measure(self) -> None:
        """Send the requests that count."""
        try:
            await self._send(self._load)
        finally:
            self._result.wall_ns = self._now()
            self._state_client(time.process_time_ns() - self._cpu_ns)

    async def _trace(self, start_call: Call) -> None:
        """Send the load once more, until the profile's window is over."""
        traced = self._traced
        window = ProfileWindow(
            self._dialect,
            self._address,
            self._headers,
            self._profile_plan(),
            start_call,
            self._stop_timeout_s,
            lambda: (traced.finished_count, self._now()),
        )
        await window.before_load()
        load = asyncio.create_task(self._send(traced))
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
        self._result.window_start_ns = window.start_ns
        self._result.window_end_ns = window.end_ns
        self._result.profile_note = window.note
        self._result.records += [
            record for record in traced.records if record.outcome != "cancelled"
        ]

    def _profile_plan(self) -> ProfilePlan:
        """Fill in what was not asked for, from how long the load took without a profile.

        A short load is profiled as a whole; of a longer one a piece from its middle, where requests
        come and go.
        """
        plan = self._plan.profile
        if plan.after is not None or plan.length is not None:
            return plan
        if self._result.wall_ns <= DEFAULT_LENGTH_NS:
            return plan
        after = Mark(duration_ns=self._result.wall_ns * DEFAULT_AFTER_PCT // 100)
        return replace(plan, after=after, length=Mark(duration_ns=DEFAULT_LENGTH_NS))

    async def _send(self, part: Pass) -> None:
        """Send every request of a pass when it is due, and wait for all."""
        limit = self._plan.concurrency
        gate = asyncio.Semaphore(limit) if limit else contextlib.nullcontext()
        ready = await self._ready(part)
        if part.stage == "load":
            self._begin_load()
        begin_ns = self._now()
        for record, due_ns in zip(part.records, part.due_ns, strict=True):
            record.arrival_ns = begin_ns + due_ns
        reporter = asyncio.create_task(self._report(part, begin_ns))
        tasks = []
        try:
            for record, prompt in zip(part.records, part.prompts, strict=True):
                wait_ns = record.arrival_ns - self._now()
                if wait_ns > 0:
                    await asyncio.sleep(wait_ns / NS_PER_S)
                if self._result.failure is not None:
                    break
                data, connection = ready.popleft() if ready else (self._encoded(prompt), None)
                request = self._request(part, record, prompt, gate, data, connection)
                tasks.append(asyncio.create_task(request))
            await asyncio.gather(*tasks)
        finally:
            for _, connection in ready:
                if connection is not None:
                    connection.close()
            for task in (reporter, *tasks):
                task.cancel()
            await asyncio.gather(reporter, *tasks, return_exceptions=True)
            for record in part.records:
                if record.outcome == "cancelled" and record.reason is None:
                    record.reason = (
                        "the load was stopped before it was sent"
                        if self._result.failure is None
                        else "the server had ended before it was sent"
                    )
            self._tell(part, begin_ns)

    async def _ready(self, part: Pass) -> deque[tuple[bytes, Connection | None]]:
        """Prepare what is due at the very start: its body, and an open connection.

        A burst would else arrive at the server over as long as the client takes to connect.
        """
        count = sum(due_ns <= 0 for due_ns in part.due_ns)
        count = min(count, self._plan.concurrency or count)
        limit_s = min(_CONNECT_S, self._plan.timeout_ns / NS_PER_S)
        opened = await asyncio.gather(
            *(asyncio.wait_for(connect(self._address, self._now), limit_s) for _ in range(count)),
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
        prompt: Prompt,
        gate: Any,
        data: bytes,
        connection: Connection | None,
    ) -> None:
        """Carry out one request with its retries; every way out leaves an outcome."""
        record.prompt_token_count = prompt.token_count
        record.prompt_source = "text" if prompt.token_ids is None else "token_ids"
        # The gaps between attempts differ from request to request, or all would come at once again.
        jitter = random.Random(self._plan.seed * 1_000_003 + record.request_id)
        async with gate:
            if self._result.failure is not None:
                return
            part.in_flight_count += 1
            try:
                while True:
                    pause_s = await self._attempt(record, data, connection)
                    connection = None
                    if pause_s is None or record.attempt_count > self._plan.retry_count:
                        break
                    pause_s = pause_s or _FIRST_PAUSE_S * 2 ** (record.attempt_count - 1)
                    await asyncio.sleep(min(pause_s, _LONGEST_PAUSE_S) * (0.5 + jitter.random()))
            finally:
                part.in_flight_count -= 1
                part.finished_count += 1
                part.failed_count += record.outcome != "ok"
                part.output_token_count += record.output_token_count

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
        attempt = Attempt(self._dialect, record, self._now, deadline)
        attempt.begin()
        try:
            async with deadline:
                if connection is not None and not connection.is_open:
                    connection.close()
                    connection = None
                if connection is None:
                    connection = await connect(self._address, self._now)
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

    async def _report(self, part: Pass, begin_ns: int) -> None:
        """Report progress, and measure how late the event loop is."""
        next_report_ns = due_ns = self._now()
        while True:
            now_ns = self._now()
            if part.stage == "load":
                self._lags_ns.append(max(0, now_ns - due_ns))
            if now_ns >= next_report_ns:
                next_report_ns = now_ns + round(_PROGRESS_S * NS_PER_S)
                self._tell(part, begin_ns)
            due_ns = self._now() + round(_POLL_S * NS_PER_S)
            await asyncio.sleep(_POLL_S)

    def _tell(self, part: Pass, begin_ns: int) -> None:
        if part.records:
            self._progress(
                LoadProgress(
                    part.stage,
                    len(part.records),
                    part.finished_count,
                    part.failed_count,
                    part.in_flight_count,
                    part.output_token_count,
                    self._now() - begin_ns,
                )
            )

    def _state_client(self, cpu_ns: int) -> None:
        """Record how busy this client was, and warn if it was too busy to be believed."""
        cpu_pct = 100 * cpu_ns / max(1, self._result.wall_ns)
        lags_ns = sorted(self._lags_ns) or [0]
        self._result.extra["client"] = {
            "cpu_pct": round(cpu_pct, 1),
            "loop_lag_p99_ns": lags_ns[(len(lags_ns) - 1) * 99 // 100],
            "loop_lag_max_ns": lags_ns[-1],
        }
        wall_ns = self._result.wall_ns
        # A load of a moment is all start-up, and says nothing about the client.
        if cpu_pct > _BUSY_PCT and wall_ns > NS_PER_S:
            self._result.notes.append(
                f"the client was busy {cpu_pct:.0f} % of the time: the latencies are partly its own"
            )
        elif lags_ns[-1] > max(_LATE_NS, wall_ns * _LATE_PCT // 100):
            self._result.notes.append(
                f"the client was kept waiting for a core, up to {lags_ns[-1] // NS_PER_MS} ms: "
                "latencies are no more exact than that"
            )

    def _now(self) -> int:
        return time.perf_counter_ns() - self._origin_ns


def _pause_s(headers: Mapping[str, str]) -> float:
    """Return how long a server asks to be left alone, 0 if it does not say."""
    try:
        return max(0.0, float(headers.get("retry-after", 0)))
    except ValueError:  # a date
        return 0.0
