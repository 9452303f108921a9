"""What a line of `requests.jsonl` is: a request of a serving run."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tracekit.ingest.json_lines import PART, LineKind

_INT64 = 2**63

_Int = Annotated[int, msgspec.Meta(ge=-_INT64, le=_INT64 - 1)]
_Small = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=_INT64 - 1)]


class _Line(msgspec.Struct, kw_only=True):
    """A line, as far as it has columns."""

    request_id: _Int
    outcome: str
    engine_request_id: str | None = None
    is_warmup: bool = False
    is_profiled: bool = False
    reason: str | None = None
    http_status: _Small | None = None
    attempt_count: _Small | None = None
    prompt_token_count: _Count | None = None
    prompt_source: str | None = None
    output_token_count: _Count | None = None
    arrival_ns: _Int | None = None
    sent_ns: _Int | None = None
    first_token_ns: _Int | None = None
    end_ns: _Int | None = None
    token_ns: list[_Int] | None = None
    token_counts: list[_Count] | None = None
    steps: list[tuple[_Int, _Int]] | None = None


_INSERT_STEPS = (
    "INSERT INTO request_step SELECT {run_id}, request_id, step[1], step[2] "
    f"FROM (SELECT request_id, unnest(steps) AS step FROM {PART}) "
    "ORDER BY request_id, step"
)

REQUESTS = LineKind(
    what="request",
    line=_Line,
    key="request_id",
    table="request",
    further_types={"steps": "BIGINT[][]"},
    further_inserts=(_INSERT_STEPS,),
)
"""The lines of `requests.jsonl`, for the tables `request` and `request_step`."""
