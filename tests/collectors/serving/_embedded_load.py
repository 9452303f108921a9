"""Loads on the embedded engine, and what came of their requests."""

from __future__ import annotations

from typing import Any

from tracekit.collectors.serving.plan import LoadPlan, LoadResult
from tracekit.collectors.serving.prompts import token_id_prompts
from tracekit.collectors.serving.records import RequestRecord

PROMPT_LEN = 40
NEW_TOKEN_COUNT = 10


def plan_of(count: int = 12, *, prompt_len: int = PROMPT_LEN, **members: Any) -> LoadPlan:
    prompts = token_id_prompts(count + 1, prompt_len, 2048, seed=0)
    settings: dict[str, Any] = {
        "prompts": prompts[:count],
        "arrival_ns": [0] * count,
        "max_new_token_count": NEW_TOKEN_COUNT,
        "warmup_prompts": prompts[count:],
    }
    return LoadPlan(**(settings | members))


def ignore(_: object) -> None:
    """Take what the engine tells of its progress."""


def records_of(result: LoadResult, *, is_profiled: bool = False) -> list[RequestRecord]:
    """Return the requests that count, or those of the second time, under the profiler."""
    return [
        record
        for record in result.records
        if record.is_profiled is is_profiled and not record.is_warmup
    ]
