"""`requests.jsonl`: outcome of every request of a serving run, one JSON object per line.

All engines write this format. Times are integer nanoseconds from `Load.start_unix_ns` of the
manifest, the start of the measured load; warm-up requests have negative times.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

FILE_NAME = "requests.jsonl"

Outcome = Literal[
    "ok", "timeout", "refused", "http_error", "broken_stream", "bad_response", "cancelled"
]
"""Outcome of a request.

- `ok`: the complete answer was received.
- `timeout`: the answer was not complete in time.
- `refused`: the connection failed, so the engine never received the request.
- `http_error`: the answer has a status other than 200; see `http_status`.
- `broken_stream`: the connection ended before the answer did (reset, no last event).
- `bad_response`: the answer does not follow the engine's protocol or reports an error.
- `cancelled`: the load was stopped before the request finished.
"""

PromptSource = Literal["token_ids", "text", "usage"]
"""Source of `prompt_token_count`.

- `token_ids`: the prompt was sent as that many ids.
- `usage`: the prompt was sent as text, and the engine counted the tokens.
- `text`: the prompt was sent as text of approximately that many tokens.
"""


class RequestRecord(Struct):
    """One request. Its outcome is `cancelled` until it gets another one.

    `arrival_ns` is the time when the request was due; `sent_ns` is the time when its last attempt
    was sent. `token_ns` has a timestamp per chunk of the answer. `token_counts` has the number of
    tokens in each chunk, or is None if every chunk is one token. `steps` are the engine steps that
    served the request, as inclusive ranges of `tk/step/<n>`.
    """

    request_id: int
    is_warmup: bool = False
    is_profiled: bool = False
    engine_request_id: str | None = None
    outcome: Outcome = "cancelled"
    reason: str | None = None
    http_status: int | None = None
    attempt_count: int = 0
    prompt_token_count: int = 0
    prompt_source: PromptSource = "token_ids"
    output_token_count: int = 0
    arrival_ns: int = 0
    sent_ns: int | None = None
    first_token_ns: int | None = None
    end_ns: int | None = None
    token_ns: list[int] = field(default_factory=list)
    token_counts: list[int] | None = None
    steps: list[list[int]] | None = None

    def shift(self, by_ns: int) -> None:
        if self.arrival_ns:  # its pass has begun
            self.arrival_ns -= by_ns
        self.token_ns = [at_ns - by_ns for at_ns in self.token_ns]
        for name in ("sent_ns", "first_token_ns", "end_ns"):
            at_ns = getattr(self, name)
            if at_ns is not None:
                setattr(self, name, at_ns - by_ns)


def write(records: Iterable[RequestRecord], folder: Path) -> None:
    with (folder / FILE_NAME).open("wb") as file:
        for record in records:
            file.write(msgspec.json.encode(record) + b"\n")
