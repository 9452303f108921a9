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


def interval_ns(measured: Sequence[RequestRecord]) -> int:
    """Return the time that throughput is of, ns: as analysis `throughput` defines it.

    From when the first measured request was sent to the end of the last that was answered.
    """
    sent = [record.sent_ns for record in measured if record.sent_ns is not None]
    ends = [
        record.end_ns for record in measured if record.outcome == "ok" and record.end_ns is not None
    ]
    return max(ends) - min(sent) if sent and ends else 0


def output_tokens_per_s(measured: Sequence[RequestRecord]) -> float:
    """Return the new tokens of all requests that were answered over their interval."""
    tokens = sum(record.output_token_count for record in measured if record.outcome == "ok")
    span_ns = interval_ns(measured)
    return tokens * NS_PER_S / span_ns if span_ns else 0.0


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
    model = f" {run.model.name}" if run.model else ""
    rate = run.tokens_per_s_mean or 0
    what = f"serve{model} ({run.engine}), {load.arrival}"
    span = format_duration(interval_ns(measured))
    answered = f"{len(good)} of {len(measured)} requests answered in {span}"
    out = [f"{what}: {answered}, {rate:,.0f} new tokens/s"]
    if len(good) < len(measured):
        out.append(f"failed: {failures(measured)}")
    for name, values_ns in (
        ("latency", [_since_sent(record, record.end_ns) for record in good]),
        ("time to first token", [_since_sent(r, r.first_token_ns) for r in good]),
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


def _since_sent(record: RequestRecord, at_ns: int | None) -> int:
    sent_ns = record.arrival_ns if record.sent_ns is None else record.sent_ns
    return (sent_ns if at_ns is None else at_ns) - sent_ns


def _percentile(values_ns: list[int], pct: int) -> int:
    """Return the smallest value that is not below so many percent of the values."""
    ordered = sorted(values_ns)
    return ordered[max(0, math.ceil(len(ordered) * pct / 100) - 1)]
