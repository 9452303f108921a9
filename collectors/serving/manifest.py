"""Manifest and summary of a serving run, even if it has partly failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from tracekit.manifest import Load, Manifest, Outcome, Repeat, Steps
from tracekit.redaction import Redactor, mask_words
from tracekit.units import NS_PER_S, format_duration

from ..run.manifest import manifest_of
from .engine import EngineFacts
from .plan import LoadResult
from .records import RequestRecord


def serving_manifest(
    load: Load,
    seed: int,
    facts: EngineFacts,
    result: LoadResult,
    engine: str,
    command: list[str],
    source: str,
    redactor: Redactor,
) -> Manifest:
    measured = counted(result.records)
    good = [record for record in measured if record.outcome == "ok"]
    rate = output_tokens_per_s(measured)
    span_ns = interval_ns(measured)
    outcome, reason = _outcome(result, measured)
    # The environment has no thread count, because the engine's differs from this process's.
    return manifest_of(
        "serve",
        engine,
        [redactor.clean(word) for word in mask_words(command)],
        outcome=outcome,
        reason=reason,
        model=facts.model,
        sequence_length=load.prompt_token_count,
        precision=facts.precision,
        seed=seed,
        attention_backend=facts.attention_backend,
        attention_reason=facts.attention_reason,
        parallel=facts.parallel,
        steps=Steps(profiled_count=result.profiled_step_count),
        repeats=[Repeat(rate, span_ns)] if rate is not None and span_ns else [],
        tokens_per_s_mean=rate,
        peak_memory=result.peak_memory,
        load=replace(
            load,
            start_unix_ns=result.start_unix_ns,
            wall_ns=result.wall_ns,
            ok_count=len(good),
            failed_count=len(measured) - len(good),
            prompt_source=source,
            lost_ns=None if outcome == "ok" else result.lost_ns,
            window_start_ns=result.window_start_ns,
            window_end_ns=result.window_end_ns,
            profile_note=result.profile_note,
            server=facts.server,
        ),
        traces=result.traces,
        notes=result.notes + _token_notes(load, good, source),
        extra=result.extra,
    )


def counted(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    return [record for record in records if not record.is_warmup and not record.is_profiled]


def interval_ns(measured: Sequence[RequestRecord]) -> int | None:
    """Return ns from the first request to the last answer, as in analysis `throughput`."""
    sent_ns = [record.sent_ns for record in measured if record.sent_ns is not None]
    ends = [
        record.end_ns for record in measured if record.outcome == "ok" and record.end_ns is not None
    ]
    return max(ends) - min(sent_ns) if sent_ns and ends else None


def output_tokens_per_s(measured: Sequence[RequestRecord]) -> float | None:
    tokens = sum(record.output_token_count for record in measured if record.outcome == "ok")
    span_ns = interval_ns(measured)
    return tokens * NS_PER_S / span_ns if span_ns else None


def summary_lines(
    run: Manifest, records: Sequence[RequestRecord], target: Path, figures: Sequence[str] = ()
) -> list[str]:
    load = run.load
    if load is None:
        return []
    measured = counted(records)
    good_count = sum(record.outcome == "ok" for record in measured)
    model = f" {run.model.name}" if run.model else ""
    what = f"serve{model} ({run.engine}), {load.arrival}"
    out = [f"{what}: {good_count} of {len(measured)} requests answered"]
    if good_count < len(measured):
        out.append(f"failed: {_failures(measured)}")
    out += figures
    out += [f"note: {note}" for note in run.notes]
    if load.profile_note:
        out.append(f"note: {load.profile_note}")
    if good_count:
        shown = "tracekit breakdown" if run.traces else "tracekit query latency"
        out.append(f"show the time breakdown: {shown} {target}")
    return out


def _outcome(result: LoadResult, measured: list[RequestRecord]) -> tuple[Outcome, str | None]:
    ok_count = sum(record.outcome == "ok" for record in measured)
    partial: Outcome = "incomplete" if ok_count else "failed"
    if result.failure is not None:
        if result.is_out_of_memory:
            return "oom", result.failure
        return partial, f"{result.failure}; {_coverage(measured, ok_count)}"
    cancelled_count = sum(record.outcome == "cancelled" for record in measured)
    if cancelled_count:
        done = f"{len(measured) - cancelled_count} of {len(measured)}"
        return partial, f"interrupted after {done} requests"
    if not ok_count:
        return "failed", f"no request was answered: {_failures(measured)}"
    if ok_count < len(measured):
        return partial, f"{_coverage(measured, ok_count)}; failed: {_failures(measured)}"
    return "ok", None


def _coverage(measured: list[RequestRecord], ok_count: int) -> str:
    span_ns = interval_ns(measured)
    if span_ns is None:
        return f"no request was answered: {_failures(measured)}"
    if ok_count == len(measured):
        return "figures cover the complete load; the recording after it is missing"
    pct = 100 * ok_count // len(measured)
    return (
        f"figures cover the {ok_count} of {len(measured)} requests ({pct} %) that were "
        f"answered, within {format_duration(span_ns)}"
    )


def _failures(records: Sequence[RequestRecord]) -> str:
    bad = [record for record in records if record.outcome != "ok"]
    if not bad:
        return ""
    outcomes = Counter(record.outcome for record in bad).most_common()
    text = ", ".join(f"{count} {outcome}" for outcome, count in outcomes)
    reason, count = Counter(_reason(record) for record in bad).most_common(1)[0]
    often = f"{count} times" if count > 1 else "once"
    return f"{text} (mostly: {reason})" if count < len(bad) else f"{text} ({often}: {reason})"


def _reason(record: RequestRecord) -> str:
    status = f"{record.http_status} " if record.outcome == "http_error" else ""
    return f"{status}{record.reason or record.outcome}"


def _token_notes(load: Load, good: list[RequestRecord], source: str) -> list[str]:
    notes = []
    counts = [record.output_token_count for record in good]
    short = [count for count in counts if count < load.max_new_token_count]
    if short:
        notes.append(
            f"{len(short)} of {len(good)} answers have fewer tokens than requested (at "
            f"least {min(short)}): the model ended them"
        )
    long = [count for count in counts if count > load.max_new_token_count]
    if long:
        notes.append(
            f"{len(long)} of {len(good)} answers have more tokens than requested (at most "
            f"{max(long)}), as the engine counts them"
        )
    of_prompts = {record.prompt_token_count for record in good}
    if source == "token_ids" and of_prompts - {load.prompt_token_count}:
        notes.append(
            f"the engine counts {min(of_prompts)} to {max(of_prompts)} tokens in prompts "
            f"of {load.prompt_token_count} ids"
        )
    return notes
