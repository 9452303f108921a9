"""Thread that runs queries, so that the screen never blocks and queries can be interrupted."""

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
_CACHE_COUNT = 8


class Answers:
    """Queries of a trace, with a cache of recent analyses for paging."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._cached: OrderedDict[tuple[object, ...], Result] = OrderedDict()

    def query(self, name: str, **params: object) -> Result:
        key = (name, *sorted(params.items()))
        result = self._cached.pop(key, None)
        if result is None:
            result = self._trace.query(name, **params)
        self._cached[key] = result
        if len(self._cached) > _CACHE_COUNT:
            self._cached.popitem(last=False)
        return result

    def sql(self, text: str) -> Result:
        return self._trace.sql(text)


class Asker:
    """Runs the queries of a trace on a single thread, one at a time."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        # The first access creates tables. This must not overlap with queries of the other thread.
        _ = trace.connection
        self._answers = Answers(trace)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tracekit-browse")
        self._running: Future[Any] | None = None

    async def ask(self, question: Callable[[Answers], T]) -> T:
        """Interrupt the running query, and return the result of a new one."""
        await self.stop()
        future = self._pool.submit(question, self._answers)
        self._running = future
        return await asyncio.wrap_future(future)

    async def stop(self) -> None:
        """Interrupt the running query, if any, and discard its result."""
        while self._running is not None and not self._running.done():
            # Repeat, because an interrupt between two statements is lost.
            self._trace.connection.interrupt()
            await asyncio.sleep(_POLL_S)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
