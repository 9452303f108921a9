"""The answer to one attempt of a request: its events and outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from ..records import Outcome, RequestRecord
from .client import MAX_TEXT_BYTES, TEXT_LENGTH, Answer
from .dialect import Dialect, Event, plain

LONGEST_EVENT_BYTES = 1 << 20
"""Maximum size of an event; a longer one is an attack or does not come from an event stream."""

# Time limit for the end of an answer after its last event: only usage figures may follow.
_TAIL_S = 2.0
# Maximum number of chunks of an answer, beyond all requested lengths, in case it never ends.
_MAX_PIECES = 1 << 16


class SseReader:
    """Incremental parser for server-sent events; returns the payload of each complete event.

    Comments (TGI's keep-alive messages) and fields other than `data` are ignored. If the stream
    ends without a final blank line, `rest` returns the last event.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._byte_count = 0

    def feed(self, packet: bytes) -> list[bytes]:
        """Return the completed payloads; raise `ValueError` if an event is too long."""
        payloads = []
        end, *starts = packet.split(b"\n")
        self._line.append(end)
        self._byte_count += len(packet)
        for start in starts:
            line = b"".join(self._line).removesuffix(b"\r")
            self._line = [start]
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line:
                self._byte_count = len(start)
                if self._data:
                    payloads.append(b"\n".join(self._data))
                    self._data = []
        if self._byte_count > LONGEST_EVENT_BYTES:
            raise ValueError(f"an event is longer than {LONGEST_EVENT_BYTES:,} bytes")
        return payloads

    def rest(self) -> list[bytes]:
        return self.feed(b"\n\n")


class Attempt(Answer):
    """Receives the answer to an attempt; `is_final` means that a retry would not help."""

    def __init__(self, dialect: Dialect, record: RequestRecord) -> None:
        super().__init__(MAX_TEXT_BYTES)
        self._dialect = dialect
        self.record = record
        self._is_stream = False
        self._sse = SseReader()
        self._sizes: list[int | None] = []
        self._total: int | None = None
        self._last_ns: int | None = None
        self.is_complete = False
        self.is_final = False
        record.attempt_count += 1
        record.sent_ns = time.perf_counter_ns()
        record.outcome = "cancelled"
        record.reason = record.http_status = record.first_token_ns = record.end_ns = None
        record.engine_request_id = None
        record.token_ns = []
        record.token_counts = None
        record.output_token_count = 0

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        super().head(status, headers)
        self.record.http_status = status
        kind = headers.get("content-type", "")
        self._is_stream = status == 200 and kind.startswith("text/event-stream")

    def body(self, at_ns: int, data: bytes) -> bool:
        if not self._is_stream:
            return super().body(at_ns, data)
        was_complete = self.is_complete
        try:
            payloads = self._sse.feed(data)
        except ValueError as error:
            self._end("bad_response", str(error), is_final=True)
            return False
        if not self._take(payloads, at_ns):
            return False
        if self.is_complete and not was_complete:
            self.deadline.reschedule(asyncio.get_running_loop().time() + _TAIL_S)
        return True

    def end(self) -> None:
        """Set the outcome at the end of the answer, unless an event has already set it."""
        if self._is_stream:
            if not self.is_final and self._take(self._sse.rest(), time.perf_counter_ns()):
                self.fail("broken_stream", "the stream ended without a final event")
        elif self.status == 200:
            kind = self.headers.get("content-type") or "no content type"
            reason = f"{kind} instead of an event stream: {self.text()}"
            self._end("bad_response", reason, is_final=True)
        else:
            is_final = self.status != 429 and self.status < 500
            self._end("http_error", self.text() or "no text", is_final=is_final)

    def fail(self, outcome: Outcome, reason: str) -> None:
        """Set the outcome of an answer that was cut off, unless it is complete."""
        if self.is_complete and outcome in ("timeout", "broken_stream"):
            if self.record.token_ns:
                self._end("ok", None, is_final=True)
                self.record.end_ns = self._last_ns
            else:
                self._end("bad_response", "the answer has no token", is_final=True)
            return
        if outcome in ("broken_stream", "cancelled"):
            count = len(self.record.token_ns)
            progress = f"after {count} token{'' if count == 1 else 's'}"
            reason = f"{progress if self.status else 'before an answer'}: {reason}"
        self._end(outcome, reason, is_final=outcome in ("timeout", "bad_response"))

    def _end(self, outcome: Outcome, reason: str | None, *, is_final: bool) -> None:
        record = self.record
        record.first_token_ns = record.token_ns[0] if record.token_ns else None
        # The engine's total takes precedence over the sum of the chunks.
        count = sum(1 if size is None else size for size in self._sizes)
        record.output_token_count = count if self._total is None else self._total
        if None not in self._sizes and any(size != 1 for size in self._sizes):
            record.token_counts = [size or 0 for size in self._sizes]
        record.outcome = outcome
        record.reason = plain(reason or "", TEXT_LENGTH) or None
        record.end_ns = time.perf_counter_ns()
        self.is_final = is_final

    def _take(self, payloads: list[bytes], now_ns: int) -> bool:
        for payload in payloads:
            try:
                event = self._dialect.read_event(payload)
                problem = event.error
            except ValueError as error:
                shown = payload[:80].decode("utf-8", "replace")
                problem = f"not an event of {self._dialect.name}: {error}: {shown}"
            if problem is None:
                self._add(event, now_ns)
                if len(self._sizes) > _MAX_PIECES:
                    problem = f"the answer has more than {_MAX_PIECES:,} pieces"
            if problem is not None:
                self._end("bad_response", problem, is_final=True)
                return False
        return True

    def _add(self, event: Event, now_ns: int) -> None:
        record = self.record
        if event.engine_request_id is not None:
            record.engine_request_id = event.engine_request_id
        if event.prompt_token_count is not None:
            # The source stays `token_ids` unless the engine reports another number of tokens, such
            # as with special tokens.
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
