"""The profile of a server under load: starts it, stops it, and keeps the window's bounds.

Whatever goes wrong becomes a note: a load is measured with or without a profile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..load.plan import Mark, ProfilePlan, ProfileSwitch
from .client import HttpClient
from .dialect import Call, Dialect
from .exchange import BrokenConnectionError, NotHttpError
from .server_values import plain

_POLL_S = 0.01
_START_TIMEOUT_S = 60.0
_INTERRUPTED_TIMEOUT_S = 5.0
_REASON_LENGTH = 200


class ProfileWindow:
    """One profile of one load.

    Args:
        dialect: how to talk to the engine.
        client: talks to the server.
        plan: when to profile; without `after` from the beginning, without `length` to the end.
        start_call: what starts the profile.
        stop_timeout_s: how long stopping may take; some engines write their traces then.
        state: gives the requests finished, and the time on the clock of the records.

    `start_ns` and `end_ns` are the window on that clock once it is known, `note` says what was
    wrong with it.
    """

    def __init__(
        self,
        dialect: Dialect,
        client: HttpClient,
        plan: ProfilePlan,
        start_call: Call,
        stop_timeout_s: float,
        state: Callable[[], tuple[int, int]],
    ) -> None:
        self._dialect = dialect
        self._client = client
        self._plan = plan
        self._start_call = start_call
        self._stop_timeout_s = stop_timeout_s
        self._state = state
        self._load_is_over = False
        self.start_ns: int | None = None
        self.end_ns: int | None = None
        self.note: str | None = None

    async def before_load(self) -> None:
        """Start the profile now if it is to cover the beginning of the load."""
        if self._plan.after is None:
            await self._start()

    def end_of_load(self, *, interrupted: bool) -> None:
        """Close the window now, in haste if the load was interrupted."""
        self._load_is_over = True
        if interrupted:
            self._stop_timeout_s = _INTERRUPTED_TIMEOUT_S

    async def run(self) -> None:
        """Start and stop the profile while the load goes on; returns when it has been stopped."""
        begin_ns = self._state()[1]
        after = self._plan.after
        if after is not None:
            await self._until(ProfileSwitch(after, None), begin_ns)
            if self._load_is_over:
                self.note = f"no profile: the load ended before it was to start, after {after}"
                return
            await self._start()
        if self.start_ns is None:
            return
        # The first mark is long past: the switch waits for the end of the window alone.
        switch = ProfileSwitch(Mark(request_count=0), self._plan.length)
        begin_ns = self.start_ns
        switch.started(self._state()[0], 0)
        await self._until(switch, begin_ns)
        self.end_ns = self._state()[1]
        stop = self._dialect.stop_call()
        problem = None if stop is None else await self._call(stop, self._stop_timeout_s)
        if problem is not None:
            self.note = f"the profile could not be stopped: {problem}"

    async def _start(self) -> None:
        self.note = await self._call(self._start_call, _START_TIMEOUT_S)
        if self.note is None:
            self.start_ns = self._state()[1]

    async def _until(self, switch: ProfileSwitch, begin_ns: int) -> None:
        """Wait for the switch to act, or for the end of the load."""
        while not self._load_is_over:
            finished_count, now_ns = self._state()
            if switch.step(finished_count, now_ns - begin_ns) is not None:
                return
            await asyncio.sleep(_POLL_S)

    async def _call(self, call: Call, timeout_s: float) -> str | None:
        """Make a call and return what went wrong, or None."""
        try:
            async with asyncio.timeout(timeout_s):
                status, text = await self._client.fetch(call.method, call.path, call.body)
        except TimeoutError:
            return f"{call.path} was not answered within {timeout_s:g} s"
        except (OSError, BrokenConnectionError, NotHttpError) as error:
            return f"{call.path} failed: {plain(str(error), _REASON_LENGTH)}"
        if 200 <= status < 300:
            return None
        return self._dialect.refusal(status, plain(text, _REASON_LENGTH))
