"""A benchmark point and its line in `benchmarks.jsonl`, with the columns of table `benchmark`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tracekit.units import format_bytes

from .sampling import CONFIDENCE_PCT, Timing

FILE_NAME = "benchmarks.jsonl"

FAMILIES = ("gemm", "memcpy", "collective", "launch")

Outcome = Literal["ok", "unsupported", "oom", "failed"]


class Point(Struct, frozen=True):
    family: str
    op: str
    series: str | None = None
    dtype: str | None = None
    m: int | None = None
    n: int | None = None
    k: int | None = None
    batch: int | None = None
    memory: str | None = None
    message_bytes: int | None = None
    group_size: int | None = None
    backend: str | None = None
    timer: str = "wall_clock"

    def __str__(self) -> str:
        words = [self.op, self.dtype, self.memory]
        if self.m is not None:
            words.append(f"{self.m}×{self.n}×{self.k}")
        if self.message_bytes is not None:
            words.append(format_bytes(self.message_bytes))
        if self.family == "launch":
            words.append(self.series)
        return " ".join(word for word in words if word)


class UnsupportedError(Exception):
    """The device or this torch version does not support a point; the message says why."""


def line_of(
    point: Point,
    facts: Mapping[str, str | int | None] | None,
    *,
    timing: Timing | None = None,
    state: Mapping[str, float | int | None] | None = None,
    outcome: Outcome = "ok",
    reason: str | None = None,
) -> dict[str, Any]:
    """Return a point's line without `bench_id`. `facts` is None if the point was not started."""
    line = msgspec.to_builtins(point) | dict(facts or {})
    if timing is not None:
        ordered = sorted(timing.sample_ns)
        interval = timing.interval()
        line |= {
            "warmup_count": timing.warmup_count,
            "repeat_count": len(ordered),
            "inner_count": timing.inner_count,
            "sample_ns": [round(sample, 3) for sample in timing.sample_ns],
            "median_ns": round(timing.median(), 3),
            "low_ns": round(interval[0], 3) if interval else None,
            "high_ns": round(interval[1], 3) if interval else None,
            "min_ns": round(ordered[0], 3),
            "max_ns": round(ordered[-1], 3),
            "confidence_pct": CONFIDENCE_PCT if interval else None,
        }
    return line | dict(state or {}) | {"outcome": outcome, "reason": reason}


def to_text(line: Mapping[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"
