"""Steps of an embedded engine: their work and its records."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..records import RequestRecord

_SETTLE_TIMEOUT_S = 5.0
# What the steps of a pass add up to; for the manifest, and to check the records against.
_COUNTS = (
    "step_count",
    "prefill_step_count",
    "decode_step_count",
    "mixed_step_count",
    "prefill_token_count",
    "decode_token_count",
)

StepPhase = Literal["prefill", "decode", "mixed"]


@dataclass(frozen=True, slots=True)
class Share:
    """The part that one request has in one step.

    `is_prefill` says that the tokens are of the prompt, be it one token of it; `gives_token` that
    the step makes a new token of the request, which the last part of a prompt does as well.
    """

    request_id: str
    token_count: int
    is_prefill: bool
    gives_token: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step works on. `number` is that of the range `tk/step/<number>`."""

    number: int
    shares: Sequence[Share]

    @property
    def phase(self) -> StepPhase:
        """The phase of the step: `mixed` if some requests are in prefill and some in decode."""
        kinds = {share.is_prefill for share in self.shares}
        if len(kinds) == 2:
            return "mixed"
        return "prefill" if True in kinds else "decode"

    @property
    def range_name(self) -> str:
        """The name of the range that tells the composition, in the order that vLLM uses."""
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
    """Add a step to the ranges, both ends included, of steps that served a request."""
    if steps and steps[-1][1] >= number - 1:
        steps[-1][1] = max(steps[-1][1], number)
    else:
        steps.append([number, number])


class StepRecorder:
    """Gives every request of a pass its tokens' times and its steps; a profile does more.

    The engine's thread writes here, the load's thread reads. Times are absolute readings of
    `time.perf_counter_ns` until the run is over, because the start of the measured load is not
    known before. Tokens have the instant at which the host knows them, which is when the engine
    could have sent them to a client.
    """

    def __init__(self) -> None:
        self._records: dict[str, RequestRecord] = {}
        self._lock = threading.Condition()
        self.counts = dict.fromkeys(_COUNTS, 0)
        self.last_step_ns = time.perf_counter_ns()

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

    def is_enough(self, record: RequestRecord | None) -> bool:
        """Tell whether the pass may end before all is served, and without a request under way."""
        del record
        return False

    # What the engine calls, on its own thread, in this order.

    def between_steps(self) -> None:
        """Hear that no step is under way; also called while there is nothing to do."""

    def step_begins(self, number: int) -> None:
        """Hear that the engine begins to choose the work of a step."""

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
        """Return what a stage of the step is to be inside."""
        del name
        return contextlib.nullcontext()

    def tokens_came(self, request_ids: Sequence[str]) -> None:
        """Give each of the requests the time of a token: it is known on the host."""
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
        """Hear that the engine ends by an error; may be called more than once."""
