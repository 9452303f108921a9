"""What is to be sent to a serving engine, and when: the same for every engine.

`serve` makes a plan from the arguments; an engine carries it out and returns what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tracekit.errors import UsageError
from tracekit.manifest import RankMemory
from tracekit.units import NS_PER_MS, NS_PER_S

from .requests_file import RequestRecord


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: token ids where the engine takes them, else text of about that many tokens."""

    token_count: int
    token_ids: Sequence[int] | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A point in the load: so many requests finished, or so much time gone; exactly one is set."""

    request_count: int | None = None
    duration_ns: int | None = None

    def __str__(self) -> str:
        if self.request_count is not None:
            return f"{self.request_count} requests"
        return f"{(self.duration_ns or 0) / NS_PER_S:g} s"


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """When the engine is to profile: from `after` the load's start, for `length` from there.

    None leaves it to the engine. The window ends with the load at the latest.
    """

    is_wanted: bool = True
    after: Mark | None = None
    length: Mark | None = None


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A load: request `i` has `prompts[i]` and is due `arrival_ns[i]` after the start.

    The warm-up requests come first, all at once, and must have ended before the load begins; they
    take the ids that follow the others. `profile_prompts` are for the second sending of the load,
    in which a server is profiled: other prompts, as many and as long. `concurrency` bounds the
    requests in flight: one that is due while so many are in flight waits for another to end.
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


@dataclass(slots=True)
class LoadResult:
    """What became of a load: a record for every request of the plan, warm-up included.

    `wall_ns` is from the start of the load to the end of its last request, without the warm-up.
    `window_*_ns` bound the profile on the clock of the records. `traces` are the names of trace
    files that the engine put into the run folder, in the order of their ranks. `profile_note` says
    why there is none, or what is special about it. `interrupted` is set when Ctrl-C ended the load.
    `failure` says what ended the engine before the load was done, `is_out_of_memory` that it was
    for want of memory; the records are those so far. `lost_ns` is when that was seen, or when the
    load was stopped, on the clock of the records.
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


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load is. `stage` is `warm-up`, `load` or `trace` (waiting for trace files)."""

    stage: Literal["warm-up", "load", "trace"]
    request_count: int
    finished_count: int
    failed_count: int
    in_flight_count: int
    output_token_count: int
    elapsed_ns: int


Progress = Callable[[LoadProgress], None]


class ProfileSwitch:
    """Says when to start and when to stop the profile, from what has happened so far.

    Args:
        after: when to start, counted from the start of the load.
        length: how long, counted from the start of the window; None is to the end of the load.
    """

    def __init__(self, after: Mark, length: Mark | None) -> None:
        self._after = after
        self._length = length
        self._begin: tuple[int, int] | None = None
        self._is_over = False

    def step(self, finished_count: int, elapsed_ns: int) -> Literal["start", "stop"] | None:
        """Return what to do now; each of both is returned once at most."""
        if self._is_over:
            return None
        if self._begin is None:
            if _reached(self._after, finished_count, elapsed_ns):
                self._begin = (finished_count, elapsed_ns)
                return "start"
            return None
        count, begin_ns = self._begin
        if self._length is not None and _reached(
            self._length, finished_count - count, elapsed_ns - begin_ns
        ):
            self._is_over = True
            return "stop"
        return None

    def started(self, finished_count: int, elapsed_ns: int) -> None:
        """Count the window from now on: starting a profiler may take its time."""
        self._begin = (finished_count, elapsed_ns)


def _reached(mark: Mark, finished_count: int, elapsed_ns: int) -> bool:
    if mark.request_count is not None:
        return finished_count >= mark.request_count
    return elapsed_ns >= (mark.duration_ns or 0)


def parse_mark(text: str, request_count: int, name: str) -> Mark:
    """Read a point in the load: `200` requests, `10%` of them, `2s` or `500ms`.

    Args:
        text: the argument's value.
        request_count: the requests of the load, for a percentage.
        name: the argument's name, for the error.

    Raises:
        UsageError: it is none of these.
    """
    value = text.strip().lower()
    for suffix, factor in (("ms", NS_PER_MS), ("s", NS_PER_S)):
        if value.endswith(suffix):
            number = _number(value.removesuffix(suffix))
            if number is not None:
                return Mark(duration_ns=round(number * factor))
    if value.endswith("%"):
        number = _number(value.removesuffix("%"))
        if number is not None and number <= 100:
            return Mark(request_count=round(number * request_count / 100))
    elif value.isdecimal():
        return Mark(request_count=int(value))
    raise UsageError(
        f"{name} {text!r} is no point in the load",
        hint=f"a number of requests ({name} 100), a share of them (10%), or a time (2s, 500ms)",
    )


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
