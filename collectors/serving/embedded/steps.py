"""Steps of an embedded engine and their records."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ..records import RequestRecord

_SETTLE_TIMEOUT_S = 5.0
# Totals over the steps of a pass, for the manifest and consistency checks.
_COUNTS = (
    "step_count",
    "prefill_step_count",
    "decode_step_count",
    "mixed_step_count",
    "prefill_token_count",
    "decode_token_count",
)

StepPhase = Literal["prefill", "decode", "mixed"]


class Share(Struct, frozen=True):
    """Share of one request in one step; the last prefill chunk also generates a token."""

    request_id: str
    token_count: int
    is_prefill: bool
    gives_token: bool


class Batch(Struct, frozen=True):
    """Work of one step. `number` is the number in the range `tk/step/<number>`."""

    number: int
    shares: Sequence[Share]

    @property
    def phase(self) -> StepPhase:
        kinds = {share.is_prefill for share in self.shares}
        if len(kinds) == 2:
            return "mixed"
        return "prefill" if True in kinds else "decode"

    @property
    def range_name(self) -> str:
        counts = {True: 0, False: 0}
        tokens = {True: 0, False: 0}
        for share in self.shares:
            counts[share.is_prefill] += 1
            tokens[share.is_prefill] += share.token_count
        return (
            f"tk/batch/prefill_{counts[True]}({tokens[True]})_decode_{counts[False]}"
            f"({tokens[False]})"
        )


def add_step(steps: list[list[int]], number: int) -> None:
    """Add a step to the step ranges (inclusive) of a request."""
    if steps and steps[-1][1] >= number - 1:
        steps[-1][1] = max(steps[-1][1], number)
    else:
        steps.append([number, number])


class StepRecorder:
    """Records token times and steps of all requests in one pass of a load; subclasses also profile.

    The engine's thread writes, and the load's thread reads. A token's timestamp is the time at
    which the host receives the token, so the earliest time at which the engine could send it to a
    client.
    """

    def __init__(self) -> None:
        self._records: dict[str, RequestRecord] = {}
        self._lock = threading.Condition()
        self.counts = dict.fromkeys(_COUNTS, 0)
        self.last_step_ns = time.perf_counter_ns()

    def expect(self, name: str, record: RequestRecord) -> None:
        with self._lock:
            self._records[name] = record

    def forget(self, name: str) -> None:
        with self._lock:
            self._records.pop(name, None)

    def wait_for_tokens(self, record: RequestRecord, token_count: int) -> int:
        """Wait for tokens that the engine is still recording; return the recorded number."""
        with self._lock:
            self._lock.wait_for(lambda: len(record.token_ns) >= token_count, _SETTLE_TIMEOUT_S)
            return len(record.token_ns)

    def is_enough(self, record: RequestRecord | None) -> bool:
        """Return whether the pass may end while `record` (if not None) is unfinished."""
        del record
        return False

    # Methods that the engine calls on its own thread, in this order.

    def between_steps(self) -> None:
        """Notification that no step is running; also sent while idle."""

    def step_begins(self, number: int) -> None:
        """Notification that the engine starts to schedule a step."""

    def batch_chosen(self, batch: Batch) -> None:
        self.counts["step_count"] += 1
        self.counts[f"{batch.phase}_step_count"] += 1
        with self._lock:
            for share in batch.shares:
                kind = "prefill" if share.is_prefill else "decode"
                self.counts[f"{kind}_token_count"] += share.token_count
                record = self._records.get(share.request_id)
                if record is not None:
                    if record.steps is None:
                        record.steps = []
                    add_step(record.steps, batch.number)

    def stage(self, name: str) -> contextlib.AbstractContextManager[object]:
        del name
        return contextlib.nullcontext()

    def tokens_came(self, request_ids: Sequence[str]) -> None:
        now_ns = time.perf_counter_ns()
        with self._lock:
            for name in request_ids:
                record = self._records.get(name)
                if record is not None:
                    record.token_ns.append(now_ns)
            self._lock.notify_all()

    def step_ends(self) -> None:
        self.last_step_ns = time.perf_counter_ns()

    def stop(self) -> None:
        """Notification that the engine ends because of an error; may be repeated."""
