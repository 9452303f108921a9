"""Simulates the batching loop of a serving engine.

A step decodes all running requests, then uses the remaining token budget to prefill prompts in
order. The last prompt may be prefilled in part. The FIFO schedulers of transformers and vLLM do the
same.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from msgspec import Struct

from tracekit.errors import QueryError


class Request(NamedTuple):
    """A request of a load: arrival time and client delay in ns, and token counts."""

    arrival_ns: int
    lag_ns: int
    prompt_token_count: int
    output_token_count: int


class Work(NamedTuple):
    prefill_token_count: int
    decode_count: int
    context_token_count: int


MAX_STEPS = 5_000_000

StepTime = Callable[[Work], int]
"""Duration of a step, from the end of the previous one, ns."""


class Engine(Struct, frozen=True):
    """Limits of an engine; None for no limit. Pages are pages of the KV cache."""

    in_flight_limit: int | None = None
    batch_limit: int | None = None
    batch_token_count: int | None = None
    page_count: int | None = None
    page_token_count: int = 1
    free_pct: float = 0.0
    wake_ns: int = 0


def free_at(ends_ns: Sequence[int], place: int, limit: int | None) -> int | None:
    """Return the earliest time of the client's next request, or None if not yet known.

    `ends_ns` are the sorted end times of requests, and `place` is the number of sent requests.
    """
    if limit is None or place < limit:
        return 0
    return ends_ns[place - limit] if place - limit < len(ends_ns) else None


class Serving:
    """A load on an engine, from the first arrival to the last token.

    Raises a QueryError if requests would be evicted or preempted. If `is_read`, all prompts are
    already prefilled.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        engine: Engine,
        step_ns: StepTime,
        *,
        is_read: bool = False,
    ) -> None:
        self.sent_ns: list[int] = []
        self.first_ns = [0] * len(requests)
        self.end_ns = [0] * len(requests)
        self.steps: list[tuple[Work, int]] = []
        self._requests = requests
        self._engine = engine
        self._is_read = is_read
        self._ends: list[int] = []
        self._queue: deque[list[int]] = deque()  # waiting requests: index and prefilled tokens
        self._running: list[tuple[int, int]] = []  # last decode step and index
        self._decoding_steps = self._context = self._pages = 0
        # Number of requests that need a new page, by the decode step modulo the page size.
        self._crossings: Counter[int] = Counter()
        now = 0
        while len(self._ends) < len(requests):
            if self._queue or self._running:
                self._send_by(now)
            else:
                now = max(now, self._due_ns() or 0)
                self._send_by(now + engine.wake_ns)
            now = self._step(now, step_ns)
            if len(self.steps) > MAX_STEPS:
                raise QueryError(f"the load would take more than {MAX_STEPS:,} steps")

    def _due_ns(self) -> int | None:
        place = len(self.sent_ns)
        if place == len(self._requests):
            return None
        free = free_at(self._ends, place, self._engine.in_flight_limit)
        if free is None:
            return None
        request = self._requests[place]
        at = max(request.arrival_ns, free) + request.lag_ns
        return max(at, self.sent_ns[-1]) if place else at

    def _send_by(self, gate_ns: int) -> None:
        while (at := self._due_ns()) is not None and at <= gate_ns:
            self._queue.append([len(self.sent_ns), 0])
            self.sent_ns.append(at)

    def _step(self, now: int, step_ns: StepTime) -> int:
        engine, page = self._engine, self._engine.page_token_count
        room = (engine.batch_limit or len(self._requests)) - len(self._running)
        while self._is_read and self._queue and room > 0:
            self._run(self._queue.popleft()[0])
            room -= 1
        decodes = len(self._running)
        tokens = engine.batch_token_count
        if tokens is not None and decodes > tokens:
            raise QueryError(
                f"{decodes} requests would run, but a step has room for only {tokens} tokens"
            )
        pages = self._crossings[self._decoding_steps % page] if decodes else 0
        capacity = engine.page_count
        free = None if capacity is None else capacity - self._pages
        if free is not None and pages > free:
            raise QueryError(
                f"the KV cache would be full with {decodes} requests, and no recorded "
                "step shows a preemption"
            )
        is_scarce = capacity is not None and 100 * (capacity - self._pages) < (
            engine.free_pct * capacity
        )
        remaining = None if tokens is None else tokens - decodes
        read = context = 0
        finals = []
        while self._queue and room > 0 and remaining != 0 and not (is_scarce and (decodes or read)):
            place, so_far = self._queue[0]
            prompt = self._requests[place].prompt_token_count
            until = prompt if remaining is None else min(prompt, so_far + remaining)
            more = -(-until // page) - -(-so_far // page)
            if free is not None and pages + more > free:
                break
            pages += more
            read += until - so_far
            context += until
            room -= 1
            remaining = None if remaining is None else remaining - (until - so_far)
            self._queue[0][1] = until
            if until < prompt:
                break
            finals.append(self._queue.popleft()[0])
        if not decodes and not read:
            raise QueryError("a prompt would not fit into the KV cache")
        self._context += decodes
        work = Work(read, decodes, self._context + context)
        took = step_ns(work)
        self.steps.append((work, took))
        now += took
        self._pages += pages
        self._decoding_steps += decodes > 0
        for place in finals:
            self.first_ns[place] = now
            self._run(place)
        while self._running and self._running[0][0] <= self._decoding_steps:
            self._end(heappop(self._running)[1], now)
        return now

    def _run(self, place: int) -> None:
        prompt, output = self._requests[place][2:]
        heappush(self._running, (self._decoding_steps + output - 1, place))
        self._crossings[(self._decoding_steps - prompt) % self._engine.page_token_count] += 1
        self._context += prompt

    def _end(self, place: int, now: int) -> None:
        prompt, output = self._requests[place][2:]
        page, tokens = self._engine.page_token_count, prompt + output - 1
        self._crossings[(self._decoding_steps - tokens) % page] -= 1
        self._context -= tokens
        self._pages -= -(-tokens // page)
        self.end_ns[place] = now
        self._ends.append(now)
