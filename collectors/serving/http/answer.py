"""The answer to one attempt of a request: its events and outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from ..records import Outcome, RequestRecord
from .client import MAX_TEXT_BYTES, BoundedAnswer
from .dialect import Dialect, Event, plain

LONGEST_EVENT_BYTES = 1 << 20
"""Maximum size of an event; a longer one is an attack or does not come from an event stream."""

_REASON_LENGTH = 200
# Time limit for the end of an answer after its last event: only usage figures may follow.
_TAIL_S = 2.0
# Maximum number of chunks of an answer, in case it never ends; no requested answer is that long.
_MOST_PIECES = 1 << 16


class SseReader:
    """Incremental parser for server-sent events; returns the payload of each complete event.

    Comments (which TGI sends as keep-alive messages) and fields other than `data` are ignored. If
    the stream ends without a final blank line, the last event is complete, too: `rest` returns it.
    """

    __slots__ = ("_data", "_data_bytes", "_line", "_line_bytes")

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._line_bytes = 0
        self._data_bytes = 0

    def feed(self, packet: bytes) -> list[bytes]:
        """Return the completed payloads; raise `ValueError` if an event or a line is too long."""
        self._line_bytes += len(packet)
        # Packets without a line end are only stored: joining every time would be quadratic.
        is_cut_end = bool(self._line) and self._line[-1].endswith(b"\r")
        if b"\n" not in packet and b"\r" not in packet and not is_cut_end:
            self._line.append(packet)
            self._check()
            return []
        text = b"".join((*self._line, packet)) if self._line else packet
        if b"\r" in text:
            # A final \r may be the first half of \r\n, so it is processed with the next packet.
            pending = b"\r" if text.endswith(b"\r") else b""
            text = text[: len(text) - len(pending)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            text += pending
        lines = text.split(b"\n")
        last = lines.pop()
        self._line = [last] if last else []
        payloads = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
                self._data_bytes += len(line)
            elif not line and self._data:
                payloads.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data = []
                self._data_bytes = 0
        self._line_bytes = len(last)
        self._check()
        return payloads

    def rest(self) -> list[bytes]:
        return self.feed(b"\n\n")

    def _check(self) -> None:
        if self._line_bytes + self._data_bytes > LONGEST_EVENT_BYTES:
            raise ValueError(f"an event is longer than {LONGEST_EVENT_BYTES:,} bytes")


class Attempt:
    """Receives the answer to an attempt; `is_final` means that a retry is useless."""

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
        self._deadline = deadline
        self.headers: Mapping[str, str] = {}
        self._is_stream = False
        self._text = BoundedAnswer(MAX_TEXT_BYTES)
        self._sse = SseReader()
        self._sizes: list[int | None] = []
        self._total: int | None = None
        self._last_ns: int | None = None
        self.is_complete = False
        self.is_final = False

    def begin(self) -> None:
        record = self.record
        record.attempt_count += 1
        record.sent_ns = self._now()
        record.outcome = "cancelled"
        record.reason = record.http_status = record.first_token_ns = record.end_ns = None
        record.engine_request_id = None
        record.token_ns = []
        record.token_counts = None
        record.output_token_count = 0

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self.record.http_status = status
        self.headers = headers
        kind = headers.get("content-type", "")
        self._is_stream = status == 200 and kind.startswith("text/event-stream")

    def body(self, at_ns: int, data: bytes) -> bool:
        """Process a part of the answer; return False if the rest is not needed."""
        if not self._is_stream:
            return self._text.body(at_ns, data)
        was_complete = self.is_complete
        try:
            payloads = self._sse.feed(data)
        except ValueError as error:
            self.end("bad_response", str(error), is_final=True)
            return False
        if not self._take(payloads, at_ns):
            return False
        if self.is_complete and not was_complete:
            self._deadline.reschedule(asyncio.get_running_loop().time() + _TAIL_S)
        return True

    def end_of_answer(self) -> None:
        if self.is_final:
            return
        if self._is_stream:
            if self._take(self._sse.rest(), self._now()):
                self.finalize("the stream ended without a final event")
            return
        status = self.record.http_status or 0
        if status == 200:
            kind = self.headers.get("content-type") or "no content type"
            reason = f"{kind} instead of an event stream: {self._text.text()}"
            self.end("bad_response", reason, is_final=True)
        else:
            reason = self._text.text() or "no text"
            self.end("http_error", reason, is_final=status != 429 and status < 500)

    def finalize(self, problem: str) -> None:
        if not self.is_complete:
            self.end("broken_stream", f"{self.progress()}: {problem}")
        elif not self.record.token_ns:
            self.end("bad_response", "the answer has no token", is_final=True)
        else:
            self.end("ok", None, is_final=True)
            self.record.end_ns = self._last_ns

    def end(self, outcome: Outcome, reason: str | None, *, is_final: bool = False) -> None:
        record = self.record
        record.first_token_ns = record.token_ns[0] if record.token_ns else None
        # The engine's total takes precedence over the sum of the chunks.
        count = sum(1 if size is None else size for size in self._sizes)
        record.output_token_count = count if self._total is None else self._total
        if None not in self._sizes and any(size != 1 for size in self._sizes):
            record.token_counts = [size or 0 for size in self._sizes]
        record.outcome = outcome
        record.reason = plain(reason or "", _REASON_LENGTH) or None
        record.end_ns = self._now()
        self.is_final = is_final

    def progress(self) -> str:
        count = len(self.record.token_ns)
        if self.record.http_status is None:
            return "before an answer"
        return f"after {count} token{'' if count == 1 else 's'}"

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
                if len(self._sizes) > _MOST_PIECES:
                    problem = f"the answer has more than {_MOST_PIECES:,} pieces"
            if problem is not None:
                self.end("bad_response", problem, is_final=True)
                return False
        return True

    def _add(self, event: Event, now_ns: int) -> None:
        record = self.record
        if event.engine_request_id is not None:
            record.engine_request_id = event.engine_request_id
        if event.prompt_token_count is not None:
            # The source stays `token_ids` unless the engine reports another number of tokens,
            # for example because it has added special tokens.
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
