"""A load on an engine in this process: warm-up, measured load, and once more for the profile."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import __version__
from tracekit.errors import WorkloadError
from tracekit.manifest import RankMemory

from ...machine import memory
from ..load.passes import Pass
from ..load.plan import LoadPlan, LoadResult, Mark, ProfileSwitch, Progress
from ..load.runner import LoadRunner, records_of
from .continuous_batching import ContinuousBatching
from .passes import PassSender
from .watch import RecordingWatcher

if TYPE_CHECKING:
    from .step_profile import StepProfile

TRACE = "rank0.json.gz"

# A step of a small model is half a megabyte of trace before compression.
_DEFAULT_STEP_COUNT = 64
_STEADY_PCT = 10
_END_TIMEOUT_S = 120.0


class EmbeddedLoad:
    """One load on one engine, which is running.

    Args:
        model: the engine's model.
        engine: the engine.
        watcher: what the engine tells of its steps.
        plan: what to send and when.
        folder: takes the trace.
        progress: told how far the load is.
        trace_options: what the profiler is to keep, as `Profile` takes it.
    """

    def __init__(
        self,
        model: Any,
        engine: ContinuousBatching,
        watcher: RecordingWatcher,
        plan: LoadPlan,
        folder: Path,
        progress: Progress,
        trace_options: Mapping[str, Any],
    ) -> None:
        self._model = model
        self._engine = engine
        self._watcher = watcher
        self._plan = plan
        self._folder = folder
        self._trace_options = trace_options
        self._runner = LoadRunner(plan, self, progress)

    def run(self) -> LoadResult:
        """Carry out all of it; Ctrl-C or the engine's failure ends it with what there is."""
        result = self._runner.result
        try:
            _run_at_once(self._runner.carry_out(is_traced=self._plan.profile.is_wanted))
        except KeyboardInterrupt:
            result.interrupted = True
        except WorkloadError as error:
            result.failure = error.message
            result.is_out_of_memory = memory.is_out_of_memory(error)
        return self._runner.settle()

    async def send(self, part: Pass) -> None:
        """Send every request of a pass when it is due, and wait for all."""
        self._send(part)

    async def measure(self, part: Pass, result: LoadResult) -> None:
        """Send the requests that count, and note the engine's steps and its memory."""
        memory.reset_peak(self._model.device)
        self._send(part)
        result.extra["steps"] = dataclasses.asdict(self._watcher.counts)
        result.peak_memory = [RankMemory(rank=0, **memory.peak(self._model.device))]

    async def trace(self, part: Pass, result: LoadResult) -> None:
        """Send the load again with the profiler on; what goes wrong is only noted."""
        # Imported here: they need torch.
        from ...profiler.profile import Profile
        from .step_profile import StepProfile

        plan = self._plan.profile
        step_count = self._watcher.counts.step_count
        is_whole = plan.after is None and plan.length is None and step_count <= _DEFAULT_STEP_COUNT
        steady_count = 0 if is_whole else max(1, len(part.records) * _STEADY_PCT // 100)
        after = plan.after or Mark(request_count=steady_count)
        profile = StepProfile(
            self._model,
            Profile(self._folder / TRACE, self._metadata(), **self._trace_options),
            ProfileSwitch(after, plan.length),
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
            result.profile_note = (
                f"no profile: the load ended before it was to start, after {after}"
            )
            return
        result.traces = [TRACE]
        result.window_start_ns = profile.start_ns
        result.window_end_ns = profile.end_ns
        result.profiled_step_count = profile.step_count
        result.profile_note = _note(profile, after, is_whole=is_whole)

    def _send(self, part: Pass, profile: StepProfile | None = None) -> None:
        self._watcher.begin_pass(profile)
        sender = PassSender(self._engine, self._watcher, part, self._plan)
        sender.run(None if profile is None else profile.is_enough)

    def _metadata(self) -> dict[str, Any]:
        """Return what makes the trace tell by itself what it is."""
        return {
            "version": __version__,
            "stage": "serve",
            "engine": "transformers",
            "model": type(self._model).__name__,
            "max_new_token_count": self._plan.max_new_token_count,
            "rank": 0,
            "world_size": 1,
        }


def not_begun(plan: LoadPlan, failure: str) -> LoadResult:
    """Return the result of a load for which the engine had not memory enough to begin."""
    records = records_of(plan)
    for record in records:
        record.reason = "the engine did not come up"
    return LoadResult(
        records=records,
        start_unix_ns=time.time_ns(),
        wall_ns=0,
        failure=failure,
        is_out_of_memory=True,
    )


def _run_at_once(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run what waits for nothing: a thread of the engine does the work, and this one the waiting.

    Without an event loop an interrupt comes where it is, as it does everywhere else.
    """
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError("an engine in this process has something to wait for")


def _initialize_profiler() -> None:
    """Have the profiler make itself ready on this thread, before it is needed on the engine's.

    The first start in a process takes a second or two, which the engine would stand still for, and
    on another thread than the one that loaded torch it complains on stderr.
    """
    import torch

    from ...profiler.profile import starting

    with starting(), torch.profiler.profile(activities=torch.profiler.supported_activities()):
        pass


def _note(profile: StepProfile, after: Mark, *, is_whole: bool) -> str:
    where = "the whole load" if is_whole else f"a window that began after {after}"
    note = (
        f"the load was sent twice: the figures are of the first time; of the second, {where} was "
        f"profiled: steps {profile.first_step} to {profile.last_step}"
    )
    if profile.was_cut:
        note += ", as many as a trace is given unless --profile-for says otherwise"
    return note
