"""What a serving run was and came to, as its manifest."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tracekit.manifest import Load, Manifest, Outcome, Repeat, Steps
from tracekit.redaction import Redactor, mask_words
from tracekit.units import format_duration

from ..run.manifest import manifest_of
from . import summary
from .engine import EngineFacts
from .load.arrival import Arrival
from .load.plan import LoadResult, ProfilePlan
from .load.requests_file import RequestRecord


@dataclass(frozen=True, slots=True)
class WantedLoad:
    """A load as the arguments ask for it."""

    request_count: int
    prompt_token_count: int
    max_new_token_count: int
    warmup_count: int
    arrival: Arrival
    concurrency: int | None
    timeout_s: float
    retry_count: int
    seed: int
    profile: ProfilePlan


def serving_manifest(
    wanted: WantedLoad,
    facts: EngineFacts,
    result: LoadResult,
    engine: str,
    command: list[str],
    source: str,
    redactor: Redactor,
) -> Manifest:
    """Return the manifest of a run.

    Args:
        wanted: the load as it was asked for.
        facts: what the engine says of itself.
        result: what became of the load.
        engine: the engine's name.
        command: the command line.
        source: what prompts are made of: `Load.prompt_source`.
        redactor: takes secrets out of the command line.
    """
    measured = summary.counted(result.records)
    good = [record for record in measured if record.outcome == "ok"]
    rate = summary.output_tokens_per_s(measured)
    interval_ns = summary.interval_ns(measured)
    outcome, reason = _outcome(result, measured)
    # Its environment says nothing of threads: the engine's are not those of this process.
    return manifest_of(
        "serve",
        engine,
        [redactor.clean(word) for word in mask_words(command)],
        outcome=outcome,
        reason=reason,
        model=facts.model,
        sequence_length=wanted.prompt_token_count,
        precision=facts.precision,
        seed=wanted.seed,
        attention_backend=facts.attention_backend,
        attention_reason=facts.attention_reason,
        parallel=facts.parallel,
        steps=Steps(profiled_count=result.profiled_step_count),
        repeats=[Repeat(rate, interval_ns)] if rate is not None and interval_ns else [],
        tokens_per_s_mean=rate,
        peak_memory=result.peak_memory,
        load=Load(
            request_count=wanted.request_count,
            prompt_token_count=wanted.prompt_token_count,
            max_new_token_count=wanted.max_new_token_count,
            arrival=str(wanted.arrival),
            concurrency=wanted.concurrency,
            warmup_count=wanted.warmup_count,
            retry_count=wanted.retry_count,
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
        notes=result.notes + _token_notes(wanted, good, source),
        extra=result.extra,
    )


def _outcome(result: LoadResult, measured: list[RequestRecord]) -> tuple[Outcome, str | None]:
    """Return what became of the run, and why it did not go well."""
    ok_count = sum(record.outcome == "ok" for record in measured)
    partial: Outcome = "incomplete" if ok_count else "failed"
    if result.failure is not None:
        if result.is_out_of_memory:
            return "oom", result.failure
        return partial, f"{result.failure}; {_coverage(measured, ok_count)}"
    cancelled_count = sum(record.outcome == "cancelled" for record in measured)
    if cancelled_count:
        done = f"{len(measured) - cancelled_count} of {len(measured)}"
        return partial, f"interrupted when {done} requests were done"
    if not ok_count:
        return "failed", f"no request was answered: {summary.failures(measured)}"
    if ok_count < len(measured):
        return partial, f"{_coverage(measured, ok_count)}; failed: {summary.failures(measured)}"
    return "ok", None


def clean_facts(facts: EngineFacts, redactor: Redactor) -> EngineFacts:
    """Return what an engine says of itself without what it was given in confidence."""
    model = facts.model
    if model is not None:
        model = replace(model, name=redactor.clean(model.name))
    texts = {
        name: redactor.clean_json(getattr(facts, name))
        for name in ("precision", "attention_backend", "attention_reason", "profile_note")
    }
    return replace(facts, model=model, server=redactor.clean_json(facts.server), **texts)


def _coverage(measured: list[RequestRecord], ok_count: int) -> str:
    """Say which part of the load the figures are of."""
    span_ns = summary.interval_ns(measured)
    if span_ns is None:
        return f"no request was answered: {summary.failures(measured)}"
    if ok_count == len(measured):
        return "the figures are of the whole load, what was to follow it is missing"
    pct = 100 * ok_count // len(measured)
    return (
        f"the figures are of the {ok_count} of {len(measured)} requests ({pct} %) that were "
        f"answered, within {format_duration(span_ns)}"
    )


def clean_result(result: LoadResult, redactor: Redactor) -> None:
    """Take secrets out of what came from the server."""
    result.failure = None if result.failure is None else redactor.clean(result.failure)
    result.notes = [redactor.clean(note) for note in result.notes]
    if result.profile_note is not None:
        result.profile_note = redactor.clean(result.profile_note)
    for record in result.records:
        record.reason = None if record.reason is None else redactor.clean(record.reason)
        if record.engine_request_id is not None:
            record.engine_request_id = redactor.clean(record.engine_request_id)


def _token_notes(wanted: WantedLoad, good: list[RequestRecord], source: str) -> list[str]:
    """Note answers that are shorter than asked, and prompts that the engine counts otherwise."""
    notes = []
    short = [r for r in good if r.output_token_count < wanted.max_new_token_count]
    if short:
        least = min(record.output_token_count for record in short)
        notes.append(
            f"{len(short)} of {len(good)} answers have fewer tokens than asked for, {least} at "
            "least: the model ended them"
        )
    long = [r for r in good if r.output_token_count > wanted.max_new_token_count]
    if long:
        most = max(record.output_token_count for record in long)
        notes.append(
            f"{len(long)} of {len(good)} answers have more tokens than asked for, {most} at most, "
            "as the engine counts them"
        )
    counts = {record.prompt_token_count for record in good}
    if source == "token_ids" and counts - {wanted.prompt_token_count}:
        notes.append(
            f"the engine counts {min(counts)} to {max(counts)} tokens in prompts of "
            f"{wanted.prompt_token_count} ids"
        )
    return notes
