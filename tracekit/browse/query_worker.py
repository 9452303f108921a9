"""Ask a trace on one thread of its own, so that the screen never waits; what runs can be ended."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from tracekit.analysis.result import Result
from tracekit.trace import Trace

T = TypeVar("T")

_POLL_S = 0.02
_KEPT_COUNT = 8


class Answers:
    """What a trace answers; the last few analyses are remembered, as pages are cut from them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._kept: OrderedDict[tuple[object, ...], Result] = OrderedDict()

    def query(self, name: str, **params: object) -> Result:
        """Return what an analysis says, as :meth:`tracekit.trace.Trace.query` does."""
        key = (name, *sorted(params.items()))
        result = self._kept.pop(key, None)
        if result is None:
            result = self._trace.query(name, **params)
        self._kept[key] = result
        if len(self._kept) > _KEPT_COUNT:
            self._kept.popitem(last=False)
        return result

    def sql(self, text: str) -> Result:
        """Return what a statement says, as :meth:`tracekit.trace.Trace.sql` does."""
        return self._trace.sql(text)


class Asker:
    """The one thread that asks a trace, one question at a time."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        # The first time, this lays tables: not to be done while the other thread asks.
        _ = trace.connection
        self._answers = Answers(trace)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tracekit-browse")
        self._running: Future[Any] | None = None

    async def ask(self, question: Callable[[Answers], T]) -> T:
        """Return the answer to a question; one that still runs is ended first."""
        await self.stop()
        future = self._pool.submit(question, self._answers)
        self._running = future
        return await asyncio.wrap_future(future)

    async def stop(self) -> None:
        """End the question that runs, if one does; its answer is lost."""
        while self._running is not None and not self._running.done():
            # Again and again: an interrupt that comes between two statements is lost.
            self._trace.connection.interrupt()
            await asyncio.sleep(_POLL_S)

    def close(self) -> None:
        """Wait for the thread to end."""
        self._pool.shutdown(cancel_futures=True)
