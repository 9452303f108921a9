"""What a line of `benchmarks.jsonl` is: one measured point of a bench run."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tracekit.ingest.json_lines import LineKind

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Small = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
_Time = Annotated[float, msgspec.Meta(ge=0)]


class _Line(msgspec.Struct, kw_only=True):
    """A line, as far as it has columns."""

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
    what="benchmark", line=_Line, key="bench_id", table="benchmark", further_types={}
)
"""The lines of `benchmarks.jsonl`, for table `benchmark`."""
