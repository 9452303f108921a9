"""What a serving run came to, in a few lines: shown at its end, also when half of it failed.

Here is what the manifest needs. How long requests took is asked of analyses, by whoever runs this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tracekit.manifest import Manifest
from tracekit.units import NS_PER_S

from .load.requests_file import RequestRecord


def counted(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    """Return the requests that figures are made of: neither warm-up nor under the profiler."""
    return [record for record in records if not record.is_warmup and not record.is_profiled]


def interval_ns(measured: Sequence[RequestRecord]) -> int | None:
    """Return the time that throughput is of, ns: as analysis `throughput` defines it.

    From when the first measured request was sent to the end of the last that was answered; None if
    none was.
    """
    sent = [record.sent_ns for record in measured if record.sent_ns is not None]
    ends = [
        record.end_ns for record in measured if record.outcome == "ok" and record.end_ns is not None
    ]
    return max(ends) - min(sent) if sent and ends else None


def output_tokens_per_s(measured: Sequence[RequestRecord]) -> float | None:
    """Return the new tokens of all requests that were answered over their interval, if any."""
    tokens = sum(record.output_token_count for record in measured if record.outcome == "ok")
    span_ns = interval_ns(measured)
    return tokens * NS_PER_S / span_ns if span_ns else None


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


def lines(
    run: Manifest, records: Sequence[RequestRecord], target: Path, figures: Sequence[str] = ()
) -> list[str]:
    """Return the summary of a run.

    Args:
        run: its manifest.
        records: its requests.
        target: its folder.
        figures: lines of what analyses say of it.
    """
    load = run.load
    if load is None:
        return []
    measured = counted(records)
    good = [record for record in measured if record.outcome == "ok"]
    model = f" {run.model.name}" if run.model else ""
    what = f"serve{model} ({run.engine}), {load.arrival}"
    out = [f"{what}: {len(good)} of {len(measured)} requests answered"]
    if len(good) < len(measured):
        out.append(f"failed: {failures(measured)}")
    out += figures
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
