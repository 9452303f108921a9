"""What the lines of `requests.jsonl` and `benchmarks.jsonl` are."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tracekit.ingest.json_lines import PART, LineKind

_INT64 = 2**63

_Int = Annotated[int, msgspec.Meta(ge=-_INT64, le=_INT64 - 1)]
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=_INT64 - 1)]
_Small = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
_Time = Annotated[float, msgspec.Meta(ge=0)]


class _Request(msgspec.Struct, kw_only=True):
    """A request of a serving run, as far as it has columns."""

    request_id: _Int
    outcome: str
    engine_request_id: str | None = None
    is_warmup: bool = False
    is_profiled: bool = False
    reason: str | None = None
    http_status: _Int32 | None = None
    attempt_count: _Int32 | None = None
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
    line=_Request,
    key="request_id",
    table="request",
    further_types={"steps": "BIGINT[][]"},
    further_inserts=(_INSERT_STEPS,),
)
"""The lines of `requests.jsonl`, for the tables `request` and `request_step`."""


class _Benchmark(msgspec.Struct, kw_only=True):
    """One measured point of a bench run, as far as it has columns."""

    bench_id: _Count
    family: Literal["gemm", "memcpy", "collective", "launch"]
    op: str
    outcome: str
    series: str | None = None
    device: str | None = None
    device_name: str | None = None
    unit_count: _Small | None = None
    thread_count: _Small | None = None
    dtype: str | None = None
    m: _Small | None = None
    n: _Small | None = None
    k: _Small | None = None
    batch: _Small | None = None
    memory: str | None = None
    message_bytes: _Count | None = None
    group_size: _Small | None = None
    backend: str | None = None
    timer: str | None = None
    warmup_count: _Count | None = None
    repeat_count: _Count | None = None
    inner_count: _Count | None = None
    sample_ns: list[_Time] | None = None
    median_ns: _Time | None = None
    low_ns: _Time | None = None
    high_ns: _Time | None = None
    min_ns: _Time | None = None
    max_ns: _Time | None = None
    confidence_pct: float | None = None
    clock_hz: _Count | None = None
    memory_clock_hz: _Count | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    reason: str | None = None


BENCHMARKS = LineKind(
    what="benchmark", line=_Benchmark, key="bench_id", table="benchmark", further_types={}
)
"""The lines of `benchmarks.jsonl`, for table `benchmark`."""
