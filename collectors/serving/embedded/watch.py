"""What is written down of every step of an embedded engine, on the engine's own thread."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..load.requests_file import RequestRecord
from .batch import Batch, add_step

if TYPE_CHECKING:
    from .step_profile import StepProfile

_SETTLE_TIMEOUT_S = 5.0


@dataclass(slots=True)
class StepCounts:
    """What the steps of a pass add up to; for the manifest, and to check the records against."""

    step_count: int = 0
    prefill_step_count: int = 0
    decode_step_count: int = 0
    mixed_step_count: int = 0
    prefill_token_count: int = 0
    decode_token_count: int = 0

    def add(self, batch: Batch) -> None:
        """Count a step."""
        self.step_count += 1
        phase = batch.phase
        self.prefill_step_count += phase == "prefill"
        self.decode_step_count += phase == "decode"
        self.mixed_step_count += phase == "mixed"
        for share in batch.shares:
            if share.is_prefill:
                self.prefill_token_count += share.token_count
            else:
                self.decode_token_count += share.token_count


class RecordingWatcher:
    """Gives every request its tokens' times and its steps, and every step its ranges.

    The engine's thread writes here, the load's thread reads. Times are absolute readings of
    `time.perf_counter_ns` until the run is over, because the start of the measured load is not
    known before. Tokens have the instant at which the host knows them, which is when the engine
    could have sent them to a client.
    """

    def __init__(self) -> None:
        self._records: dict[str, RequestRecord] = {}
        self._lock = threading.Condition()
        self._profile: StepProfile | None = None
        self.counts = StepCounts()
        self.last_step_ns = 0

    def expect(self, name: str, record: RequestRecord) -> None:
        """Write down what becomes of a request; `name` is how the engine knows it."""
        with self._lock:
            self._records[name] = record

    def forget(self, name: str) -> None:
        """Write down no more of a request."""
        with self._lock:
            self._records.pop(name, None)

    def wait_for_tokens(self, record: RequestRecord, token_count: int) -> int:
        """Return how many tokens of a request have come, waiting for those that are due at once.

        The engine hands out a result in the middle of what `tokens_came` follows.
        """
        with self._lock:
            self._lock.wait_for(lambda: len(record.token_ns) >= token_count, _SETTLE_TIMEOUT_S)
            return len(record.token_ns)

    def begin_pass(self, profile: StepProfile | None = None) -> None:
        """Begin a pass of requests: counts from 0, and perhaps a profile in a window of it."""
        self.counts = StepCounts()
        self.last_step_ns = time.perf_counter_ns()
        self._profile = profile

    # What the engine calls.

    def between_steps(self) -> None:
        """Start or stop the profiler if it is time: no step is cut, and it sees its own thread."""
        if self._profile is not None:
            self._profile.between_steps()

    def step_begins(self, number: int) -> None:
        """Open the range of the step."""
        if self._profile is not None:
            self._profile.open_step(number)

    def batch_chosen(self, batch: Batch) -> None:
        """Note which requests the step serves, and open the ranges of its phase and batch."""
        self.counts.add(batch)
        with self._lock:
            for share in batch.shares:
                record = self._records.get(share.request_id)
                if record is not None:
                    if record.steps is None:
                        record.steps = []
                    add_step(record.steps, batch.number)
        if self._profile is not None:
            self._profile.open_batch(batch)

    def stage(self, name: str) -> contextlib.AbstractContextManager[object]:
        """Return the range of a stage of the step, or nothing outside of the profile."""
        if self._profile is None:
            return contextlib.nullcontext()
        return self._profile.stage(name)

    def tokens_came(self, request_ids: Sequence[str]) -> None:
        """Give each of the requests the time of a token."""
        now_ns = time.perf_counter_ns()
        with self._lock:
            for name in request_ids:
                record = self._records.get(name)
                if record is not None:
                    record.token_ns.append(now_ns)
            self._lock.notify_all()

    def step_ends(self) -> None:
        """Close the ranges of the step."""
        if self._profile is not None:
            self._profile.close_step()
        self.last_step_ns = time.perf_counter_ns()

    def engine_fails(self) -> None:
        """Stop the profiler, which only this thread can."""
        if self._profile is not None:
            self._profile.stop()
