"""The requests to send and their schedule, independent of the engine."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from tracekit.errors import UsageError
from tracekit.manifest import RankMemory
from tracekit.units import NS_PER_MS, NS_PER_S

from .records import RequestRecord


class Prompt(Struct, frozen=True):
    """A prompt: token ids if the engine accepts them, else text of about `token_count` tokens."""

    token_count: int
    token_ids: Sequence[int] | None = None
    text: str | None = None


class Arrival(Struct, frozen=True):
    pattern: Literal["burst", "poisson", "constant"]
    rate_per_s: float | None = None

    def __str__(self) -> str:
        return self.pattern if self.rate_per_s is None else f"{self.pattern}:{self.rate_per_s:g}"

    def schedule_ns(self, count: int, seed: int) -> list[int]:
        """Return the due times, ns from the start, in ascending order; the first is 0."""
        if self.rate_per_s is None:
            return [0] * count
        gap_s = 1 / self.rate_per_s
        if self.pattern == "constant":
            return [round(index * gap_s * NS_PER_S) for index in range(count)]
        source = random.Random(seed)
        due_s = 0.0
        due_ns = []
        for _ in range(count):
            due_ns.append(round(due_s * NS_PER_S))
            due_s += source.expovariate(self.rate_per_s)
        return due_ns


def parse_arrival(text: str) -> Arrival:
    pattern, colon, rate = text.strip().lower().partition(":")
    if pattern == "burst" and not colon:
        return Arrival("burst")
    if pattern in ("poisson", "constant") and colon:
        rate_per_s = _number(rate)
        if not rate_per_s:
            raise UsageError(f"--arrival {text}: {rate!r} is not a rate in requests per second")
        # Comparing keeps the literal type.
        return Arrival("poisson" if pattern == "poisson" else "constant", rate_per_s)
    raise UsageError(
        f"--arrival {text!r} is not an arrival pattern",
        hint="expected burst, poisson:RATE, or constant:RATE, with the rate in requests per second",
    )


class Mark(Struct, frozen=True):
    """A point in the load: either a number of finished requests or an elapsed time."""

    request_count: int | None = None
    duration_ns: int | None = None

    def __str__(self) -> str:
        if self.request_count is not None:
            return f"{self.request_count} requests"
        return f"{(self.duration_ns or 0) / NS_PER_S:g} s"

    def is_reached(self, finished_count: int, elapsed_ns: int) -> bool:
        if self.request_count is not None:
            return finished_count >= self.request_count
        return elapsed_ns >= (self.duration_ns or 0)


def parse_mark(text: str, request_count: int, name: str) -> Mark:
    value = text.strip().lower()
    for suffix, factor in (("ms", NS_PER_MS), ("s", NS_PER_S)):
        number = _number(value.removesuffix(suffix)) if value.endswith(suffix) else None
        if number is not None:
            return Mark(duration_ns=round(number * factor))
    if value.endswith("%"):
        number = _number(value.removesuffix("%"))
        if number is not None and number <= 100:
            return Mark(request_count=round(number * request_count / 100))
    elif value.isdecimal():
        return Mark(request_count=int(value))
    raise UsageError(
        f"{name} {text!r} is not a point in the load",
        hint=f"expected a number of requests ({name} 100), a share of them (10%), or a "
        "time (2s, 500ms)",
    )


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None


class ProfilePlan(Struct, frozen=True):
    """Profile window; the engine chooses values that are None."""

    is_wanted: bool = True
    after: Mark | None = None
    length: Mark | None = None


class LoadPlan(Struct, frozen=True):
    """A load: request `i` has `prompts[i]` and is due `arrival_ns[i]` after the start.

    Warm-up requests are sent first, all at once, and must end before the load begins.
    `profile_prompts` are for the second, profiled pass: other prompts of the same lengths.
    `concurrency` limits the requests in flight.
    """

    prompts: Sequence[Prompt]
    arrival_ns: Sequence[int]
    max_new_token_count: int
    warmup_prompts: Sequence[Prompt] = ()
    profile_prompts: Sequence[Prompt] = ()
    concurrency: int | None = None
    timeout_ns: int = 600 * NS_PER_S
    retry_count: int = 0
    seed: int = 0
    profile: ProfilePlan = field(default_factory=ProfilePlan)


class LoadResult(Struct):
    """Result of a load: one record per request of the plan, including the warm-up.

    `wall_ns` excludes the warm-up. `traces` are file names in rank order. `profile_note` explains a
    missing or unusual profile. `failure` explains why the engine ended before the load; the records
    then cover the time until `lost_ns`, when the loss was detected. Times `*_ns` are on the clock
    of the records.
    """

    records: list[RequestRecord]
    start_unix_ns: int
    wall_ns: int
    window_start_ns: int | None = None
    window_end_ns: int | None = None
    traces: list[str] = field(default_factory=list)
    profile_note: str | None = None
    profiled_step_count: int = 0
    peak_memory: list[RankMemory] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    interrupted: bool = False
    failure: str | None = None
    lost_ns: int | None = None
    is_out_of_memory: bool = False


class LoadProgress(Struct, frozen=True):
    stage: Literal["warm-up", "load", "trace"]
    request_count: int
    finished_count: int
    failed_count: int
    in_flight_count: int
    output_token_count: int
    elapsed_ns: int

    def __str__(self) -> str:
        seconds = self.elapsed_ns / NS_PER_S
        if not self.request_count:
            return f"waiting for traces, {seconds:.0f} s"
        name = "profile" if self.stage == "trace" else self.stage
        rate = self.output_token_count / seconds if seconds > 0 else 0.0
        line = (
            f"{name}: {self.finished_count} of {self.request_count} requests, "
            f"{self.in_flight_count} in flight, {rate:,.0f} tokens/s"
        )
        return f"{line}, {self.failed_count} failed" if self.failed_count else line


Progress = Callable[[LoadProgress], None]
