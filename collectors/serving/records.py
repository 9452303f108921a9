"""`requests.jsonl`: outcome of every request of a serving run, one JSON object per line.

All engines write this format. Times are integer nanoseconds from `Load.start_unix_ns` of the
manifest, the start of the measured load; warm-up requests have negative times.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

FILE_NAME = "requests.jsonl"

Outcome = Literal[
    "ok", "timeout", "refused", "http_error", "broken_stream", "bad_response", "cancelled"
]
"""How a request ended.

- `ok`: all of the answer came.
- `timeout`: it was not done in time.
- `refused`: no connection could be made, so that the engine never saw it.
- `http_error`: an answer with another status than 200; `http_status` has it.
- `broken_stream`: the connection broke before the end of the answer (reset, no last event).
- `bad_response`: an answer that is not of the engine's protocol, or one that reports an error.
- `cancelled`: the load was stopped before the request was done.
"""

PromptSource = Literal["token_ids", "text", "usage"]
"""How far `prompt_token_count` can be trusted.

- `token_ids`: the prompt was sent as that many ids.
- `usage`: it was sent as text, and the engine counted the tokens.
- `text`: it was sent as text of about so many tokens, and nobody counted them.
"""


@dataclass(slots=True)
class RequestRecord:
    """One request, one line of `requests.jsonl`.

    A new record is `cancelled`: whatever is interrupted before it says otherwise, was. Requests of
    the warm-up, and those of a second sending of the load under the profiler, are in no figure.

    `arrival_ns` is when the schedule wanted it sent, `sent_ns` when its last attempt was. A request
    that never left has `sent_ns` None. `token_ns` has one instant per piece of the answer;
    `token_counts` has the tokens of each piece, or is None if every piece is one token.
    `steps` are the engine's steps that served it, as ranges of `tk/step/<n>`, both ends included.
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
        """Move the times to an origin that is later by so much."""
        if self.arrival_ns:  # its pass was begun
            self.arrival_ns -= by_ns
        self.token_ns = [at_ns - by_ns for at_ns in self.token_ns]
        for name in ("sent_ns", "first_token_ns", "end_ns"):
            at_ns = getattr(self, name)
            if at_ns is not None:
                setattr(self, name, at_ns - by_ns)


def write(records: Iterable[RequestRecord], folder: Path) -> None:
    with (folder / FILE_NAME).open("w", encoding="utf-8") as file:
        for record in records:
            line = json.dumps(dataclasses.asdict(record), ensure_ascii=False, separators=(",", ":"))
            file.write(line + "\n")
