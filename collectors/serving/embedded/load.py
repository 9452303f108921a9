"""Runs a load on the embedded engine: warm-up, measured load, and profiled load."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import WorkloadError
from tracekit.manifest import RankMemory
from tracekit.units import NS_PER_S

from ...machine import memory
from ..plan import LoadPlan, LoadResult, Mark, Progress
from ..records import RequestRecord
from ..runner import LoadRunner, Pass, records_of
from .continuous_batching import ContinuousBatching
from .steps import StepRecorder

if TYPE_CHECKING:
    from .step_profile import StepProfile

TRACE = "rank0.json.gz"

# Limits the trace size: a step of a small model takes about 0.5 MB before compression.
_DEFAULT_STEP_COUNT = 64
_STEADY_PCT = 10
_END_TIMEOUT_S = 120.0
_ERROR_TIMEOUT_S = 1.0
_POLL_S = 0.1


class EmbeddedLoad:
    def __init__(
        self,
        model: Any,
        engine: ContinuousBatching,
        plan: LoadPlan,
        folder: Path,
        progress: Progress,
        trace_options: Mapping[str, Any],
    ) -> None:
        self._model = model
        self._engine = engine
        self._plan = plan
        self._folder = folder
        self._trace_options = trace_options
        self._runner = LoadRunner(plan, progress)
        self._pass = self._runner.load
        self._in_flight: dict[str, RequestRecord] = {}

    def run(self) -> LoadResult:
        result = self._runner.result
        try:
            for part in self._runner.passes(is_traced=self._plan.profile.is_wanted):
                if part.stage == "trace":
                    self._trace(part, result)
                else:
                    self._measure(part, result)
        except KeyboardInterrupt:
            result.interrupted = True
        except WorkloadError as error:
            result.failure = error.message
            result.is_out_of_memory = memory.is_out_of_memory(error)
        return self._runner.finish()

    def _measure(self, part: Pass, result: LoadResult) -> None:
        memory.reset_peak(self._model.device)
        recorder = StepRecorder()
        self._send(part, recorder)
        if part.stage == "load":
            result.extra["steps"] = recorder.counts
            result.peak_memory = [RankMemory(rank=0, **memory.peak(self._model.device))]

    def _trace(self, part: Pass, result: LoadResult) -> None:
        # Imported here, because these modules need torch.
        from ...profiler.profile import Profile
        from .step_profile import StepProfile

        plan = self._plan.profile
        step_count = self._engine.recorder.counts["step_count"]
        is_whole = plan.after is None and plan.length is None and step_count <= _DEFAULT_STEP_COUNT
        steady_count = 0 if is_whole else max(1, len(part.records) * _STEADY_PCT // 100)
        after = plan.after or Mark(request_count=steady_count)
        profile = StepProfile(
            self._model,
            Profile(self._folder / TRACE, self._metadata(), **self._trace_options),
            after,
            plan.length,
            part.so_far,
            None if is_whole or plan.length is not None else _DEFAULT_STEP_COUNT,
        )
        _initialize_profiler()
        try:
            self._send(part, profile)
            profile.end(_END_TIMEOUT_S)
            if profile.step_count:
                profile.export()
        except WorkloadError as error:
            profile.give_up()
            result.profile_note = f"no profile: {error.message}"
            return
        except BaseException:
            profile.give_up()
            raise
        if not profile.step_count or profile.start_ns is None or profile.end_ns is None:
            result.profile_note = f"no profile: the load ended before it started, after {after}"
            return
        result.traces = [TRACE]
        result.window_start_ns = profile.start_ns
        result.window_end_ns = profile.end_ns
        result.profiled_step_count = profile.step_count
        result.profile_note = _note(profile, after, is_whole=is_whole)

    def _send(self, part: Pass, recorder: StepRecorder) -> None:
        """Send all requests on schedule, until all have ended or the profile is complete."""
        self._pass = part
        self._engine.recorder = recorder
        part.begin()
        waiting = deque(range(len(part.records)))
        try:
            while waiting or self._in_flight:
                self._send_due(waiting)
                if recorder.is_enough(None):
                    waiting.clear()
                    if all(map(recorder.is_enough, self._in_flight.values())):
                        break
                self._finish_all(self._wait_s(waiting))
                self._drop_overdue()
                tokens = sum(len(record.token_ns) for record in self._in_flight.values())
                part.report(tokens)
        finally:
            for name in list(self._in_flight):
                self._drop(name).reason = "the load ended before the request was complete"
                part.left()
            part.end("the load was stopped before the request was sent")

    def _has_room(self) -> bool:
        return len(self._in_flight) < (self._plan.concurrency or len(self._pass.records))

    def _send_due(self, waiting: deque[int]) -> None:
        while waiting and self._has_room():
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
            self._engine.recorder.expect(name, record)
            record.sent_ns = time.perf_counter_ns()
            token_ids = self._pass.prompts[index].token_ids or ()
            self._engine.submit(name, token_ids, self._plan.max_new_token_count)

    def _wait_s(self, waiting: deque[int]) -> float:
        if not waiting or not self._has_room():
            return _POLL_S
        due_s = (self._pass.records[waiting[0]].arrival_ns - time.perf_counter_ns()) / NS_PER_S
        return min(max(due_s, 0.0), _POLL_S)

    def _finish_all(self, timeout_s: float) -> None:
        output = self._engine.result(timeout_s)
        while output is not None:
            self._finish(output)
            output = self._engine.result(0)

    def _finish(self, output: Any) -> None:
        record = self._in_flight.pop(output.request_id, None)
        if record is None:  # already canceled
            return
        token_count = len(output.generated_tokens)
        record.output_token_count = self._engine.recorder.wait_for_tokens(record, token_count)
        self._engine.recorder.forget(output.request_id)
        record.first_token_ns = record.token_ns[0] if record.token_ns else None
        record.end_ns = record.token_ns[-1] if record.token_ns else time.perf_counter_ns()
        wanted_count = self._plan.max_new_token_count
        if output.error is not None:
            record.outcome, record.reason = "bad_response", str(output.error)
        elif token_count != wanted_count:
            record.outcome = "bad_response"
            record.reason = f"the engine returned {token_count} tokens instead of {wanted_count}"
        elif record.output_token_count != token_count:
            # Otherwise, timestamps would be assigned to the wrong tokens.
            raise WorkloadError(
                f"request {output.request_id}: the engine's steps generated "
                f"{record.output_token_count} tokens, but {token_count} were returned; "
                "tracekit does not support this version of transformers",
                hint="please report it with the output of `pip show transformers`",
            )
        else:
            record.outcome = "ok"
        self._pass.finished(record)
        if output.error is not None:
            self._engine.check_after_error(_ERROR_TIMEOUT_S)

    def _drop_overdue(self) -> None:
        now_ns = time.perf_counter_ns()
        limit_ns = self._plan.timeout_ns
        if self._in_flight and now_ns - self._engine.recorder.last_step_ns > limit_ns:
            raise WorkloadError(
                f"the engine ran no step for {limit_ns / NS_PER_S:g} s, with "
                f"{len(self._in_flight)} requests in flight"
            )
        for name, record in list(self._in_flight.items()):
            # Requests are in the order in which they were sent.
            if record.sent_ns is None or now_ns - record.sent_ns <= limit_ns:
                break
            self._drop(name)
            record.outcome = "timeout"
            record.reason = f"not complete {limit_ns / NS_PER_S:g} s after it was sent"
            record.end_ns = now_ns
            self._pass.finished(record)

    def _drop(self, name: str) -> RequestRecord:
        """Cancel a request in the engine and return its record, whose outcome is `cancelled`."""
        record = self._in_flight.pop(name)
        self._engine.recorder.forget(name)
        self._engine.cancel(name)
        record.output_token_count = len(record.token_ns)
        record.first_token_ns = record.token_ns[0] if record.token_ns else None
        record.end_ns = time.perf_counter_ns()
        return record

    def _metadata(self) -> dict[str, Any]:
        return {
            "stage": "serve",
            "engine": "transformers",
            "model": type(self._model).__name__,
            "max_new_token_count": self._plan.max_new_token_count,
            "rank": 0,
            "world_size": 1,
        }


def not_begun(plan: LoadPlan, failure: str) -> LoadResult:
    records = records_of(plan)
    for record in records:
        record.reason = "the engine did not start"
    return LoadResult(
        records=records,
        start_unix_ns=time.time_ns(),
        wall_ns=0,
        failure=failure,
        is_out_of_memory=True,
    )


def _initialize_profiler() -> None:
    """Initialize the profiler before the engine's thread needs it.

    The first start in a process takes one or two seconds, which would stall the engine, and prints
    warnings on other threads than the one that loaded torch.
    """
    import torch

    from ...profiler.profile import starting

    with starting(), torch.profiler.profile(activities=torch.profiler.supported_activities()):
        pass


def _note(profile: StepProfile, after: Mark, *, is_whole: bool) -> str:
    where = "the complete load" if is_whole else f"a window that began after {after}"
    note = (
        "the load was sent twice: the figures are from the first time; in the second, "
        f"{where} was profiled: steps {profile.first_step} to {profile.last_step}"
    )
    if profile.was_cut:
        note += ", the default limit of a trace without --profile-for"
    return note
