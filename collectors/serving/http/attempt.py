"""One attempt at a request: reads the answer, and decides how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from ..load.requests_file import Outcome, RequestRecord
from .client import TextReceiver
from .dialect import Dialect, Event
from .server_values import plain
from .sse import SseReader

_REASON_LENGTH = 200
# After its last event an answer may bring usage figures, and then should end.
_TAIL_S = 2.0
# Of an answer that does not end no more is kept than this; none that is asked for is so long.
_MOST_PIECES = 1 << 16


class Attempt:
    """One attempt at a request, and what has come of its answer so far.

    It receives the answer from `exchange`. `is_settled` means that another attempt would be of
    no use.
    """

    def __init__(
        self,
        dialect: Dialect,
        record: RequestRecord,
        now: Callable[[], int],
        deadline: asyncio.Timeout,
    ) -> None:
        self._dialect = dialect
        self.record = record
        self._now = now
        self.deadline = deadline
        self.headers: Mapping[str, str] = {}
        self._is_stream = False
        self._text = TextReceiver()
        self._sse = SseReader()
        self._sizes: list[int | None] = []
        self._total: int | None = None
        self._last_ns: int | None = None
        self.is_complete = False
        self.is_settled = False

    def begin(self) -> None:
        """Set the record back to a request that has just been sent."""
        record = self.record
        record.attempt_count += 1
        record.sent_ns = self._now()
        record.outcome = "cancelled"
        record.reason = record.http_status = record.first_token_ns = record.end_ns = None
        record.engine_request_id = None
        record.token_ns = []
        record.token_counts = None
        record.output_token_count = 0

    def head(self, status: int, headers: Mapping[str, str]) -> bool:
        """Take status and headers of the answer."""
        self.record.http_status = status
        self.headers = headers
        kind = headers.get("content-type", "")
        self._is_stream = status == 200 and kind.startswith("text/event-stream")
        return True

    def body(self, at_ns: int, data: bytes) -> bool:
        """Take a piece of the answer; False if nothing more need be read."""
        if not self._is_stream:
            return self._text.body(at_ns, data)
        was_complete = self.is_complete
        try:
            payloads = self._sse.feed(data)
        except ValueError as error:
            self._finish("bad_response", str(error))
            return False
        if not self._take(payloads, at_ns):
            return False
        if self.is_complete and not was_complete:
            self.deadline.reschedule(asyncio.get_running_loop().time() + _TAIL_S)
        return True

    def end_of_answer(self) -> None:
        """Decide the outcome of an answer that came to its end in good order."""
        if self.is_settled:
            return
        if self._is_stream:
            if self._take(self._sse.rest(), self._now()):
                self.settle()
            return
        status = self.record.http_status
        if status == 200:
            kind = self.headers.get("content-type") or "no content type"
            self._finish("bad_response", f"{kind} and no event stream: {self._text.text()}")
        else:
            self.end("http_error", self._text.text() or "no text")
            self.is_settled = status != 429 and (status or 0) < 500

    def _take(self, payloads: list[bytes], now_ns: int) -> bool:
        """Take events in; return False if one of them ends the request badly."""
        for payload in payloads:
            try:
                event = self._dialect.read_event(payload)
            except ValueError as error:
                shown = payload[:80].decode("utf-8", "replace")
                name = self._dialect.name
                self._finish("bad_response", f"not an event of {name}: {error}: {shown}")
                return False
            if event.error is not None:
                self._finish("bad_response", event.error)
                return False
            self._add(event, now_ns)
            if len(self._sizes) > _MOST_PIECES:
                self._finish("bad_response", f"the answer has more than {_MOST_PIECES:,} pieces")
                return False
        return True

    def _add(self, event: Event, now_ns: int) -> None:
        record = self.record
        if event.engine_request_id is not None:
            record.engine_request_id = event.engine_request_id
        if event.prompt_token_count is not None:
            # Ids that the engine counts as we do stay ids; it may also have added some.
            if record.prompt_source == "text" or (
                event.prompt_token_count != record.prompt_token_count
            ):
                record.prompt_source = "usage"
            record.prompt_token_count = event.prompt_token_count
        size = event.token_count
        if event.output_token_count is not None:
            if size is None:
                size = event.output_token_count - (self._total or 0)
            self._total = event.output_token_count
        if size is None or size > 0:
            record.token_ns.append(now_ns)
            self._sizes.append(size)
        if event.is_last and not self.is_complete:
            self.is_complete = True
            self._last_ns = now_ns

    def settle(self) -> None:
        """Decide the outcome of an answer that has come to its end."""
        if not self.is_complete:
            self.end("broken_stream", f"{self.progress()}: the stream ended without its last event")
        elif not self.record.token_ns:
            self._finish("bad_response", "the answer has no token")
        else:
            self._finish("ok", None)
            self.record.end_ns = self._last_ns

    def end(self, outcome: Outcome, reason: str) -> None:
        """End the attempt with an outcome that another attempt may better."""
        self._count()
        record = self.record
        record.outcome = outcome
        record.reason = plain(reason, _REASON_LENGTH)
        record.end_ns = self._now()

    def progress(self) -> str:
        """Say how far the answer had come."""
        count = len(self.record.token_ns)
        if self.record.http_status is None:
            return "before an answer"
        return f"after {count} token{'' if count == 1 else 's'}"

    def _finish(self, outcome: Outcome, reason: str | None) -> None:
        self.end(outcome, reason or "")
        self.record.reason = self.record.reason or None
        self.is_settled = True

    def _count(self) -> None:
        """Settle the numbers of tokens from what the pieces and the engine's sum say."""
        record = self.record
        record.first_token_ns = record.token_ns[0] if record.token_ns else None
        counted = sum(1 if size is None else size for size in self._sizes)
        record.output_token_count = counted if self._total is None else self._total
        if None not in self._sizes and any(size != 1 for size in self._sizes):
            record.token_counts = [size or 0 for size in self._sizes]
