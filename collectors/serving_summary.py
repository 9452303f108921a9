"""What a serving run came to, in a few lines: shown at its end, also when half of it failed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tracekit.manifest import Manifest
from tracekit.units import NS_PER_S, format_duration

from .requests_file import RequestRecord


def counted(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    """Return the requests that figures are made of: neither warm-up nor under the profiler."""
    return [record for record in records if not record.is_warmup and not record.is_profiled]


def output_tokens_per_s(records: Sequence[RequestRecord], wall_ns: int) -> float:
    """Return the new tokens of all requests that were answered over the time of the load."""
    tokens = sum(record.output_token_count for record in records if record.outcome == "ok")
    return tokens * NS_PER_S / wall_ns if wall_ns else 0.0


def failures(records: Sequence[RequestRecord]) -> str:
    """Return how many requests ended in which other way than `ok`, and the commonest reason."""
    bad = [record for record in records if record.outcome != "ok"]
    if not bad:
        return ""
    outcomes = Counter(record.outcome for record in bad).most_common()
    text = ", ".join(f"{count} {outcome}" for outcome, count in outcomes)
    reason, count = Counter(_reason(record) for record in bad).most_common(1)[0]
    often = f"{count} times" if count > 1 else "once"
    return f"{text} (mostly: {reason})" if count < len(bad) else f"{text} ({often}: {reason})"


def lines(run: Manifest, records: Sequence[RequestRecord], target: Path) -> list[str]:
    """Return the summary of a run.

    Args:
        run: its manifest.
        records: its requests.
        target: its folder.
    """
    load = run.load
    if load is None:
        return []
    measured = counted(records)
    good = [record for record in measured if record.outcome == "ok"]
    wall_ns = load.wall_ns or 0
    model = f" {run.model.name}" if run.model else ""
    rate = run.tokens_per_s_mean or 0
    what = f"serve{model} ({run.engine}), {load.arrival}"
    answered = f"{len(good)} of {len(measured)} requests answered in {format_duration(wall_ns)}"
    out = [f"{what}: {answered}, {rate:,.0f} new tokens/s"]
    if len(good) < len(measured):
        out.append(f"failed: {failures(measured)}")
    for name, values_ns in (
        ("latency", [_span(record.end_ns, record.arrival_ns) for record in good]),
        ("time to first token", [_span(r.first_token_ns, r.arrival_ns) for r in good]),
    ):
        if values_ns:
            out.append(
                f"{name}: p50 {format_duration(_percentile(values_ns, 50))}, "
                f"p99 {format_duration(_percentile(values_ns, 99))}, "
                f"max {format_duration(max(values_ns))}"
            )
    out += [f"note: {note}" for note in run.notes]
    if load.profile_note:
        out.append(f"note: {load.profile_note}")
    if good:
        shown = "tracekit breakdown" if run.traces else "tracekit query latency"
        out.append(f"see where the time went: {shown} {target}")
    return out


def _reason(record: RequestRecord) -> str:
    status = f"{record.http_status} " if record.outcome == "http_error" else ""
    return f"{status}{record.reason or record.outcome}"


def _span(end_ns: int | None, begin_ns: int) -> int:
    return (end_ns or begin_ns) - begin_ns


def _percentile(values_ns: list[int], pct: int) -> int:
    """Return the smallest value that is not below so many percent of the values."""
    ordered = sorted(values_ns)
    return ordered[max(0, math.ceil(len(ordered) * pct / 100) - 1)]
