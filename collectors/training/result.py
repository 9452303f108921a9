"""Results of the ranks of a training run, and the manifest built from them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from msgspec import field

from tracekit import manifest
from tracekit.units import NS_PER_S

from ..loop.report import LoopReport, manifest_of_ranks, overhead_of
from ..model.models import display_name
from .spec import TrainingSpec


class RankResult(LoopReport, kw_only=True):
    final_losses: list[float] = field(default_factory=list)
    first_loss: float | None = None
    last_loss: float | None = None
    attention_reason: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def make_manifest(
    spec: TrainingSpec,
    results: Sequence[RankResult],
    *,
    outcome: manifest.Outcome = "ok",
    reason: str | None = None,
) -> manifest.Manifest:
    first = results[0] if results else RankResult(rank=0, world_size=spec.rank_count)
    is_ok = outcome == "ok"
    repeats = _repeats(spec, results) if is_ok else []
    rates = [one.tokens_per_s for one in repeats if one.tokens_per_s is not None]
    run = manifest_of_ranks(
        spec.stage,  # type: ignore[arg-type]
        spec.engine,
        spec.command,
        results,
        outcome=outcome,
        reason=reason,
        opt=spec.opt_text,
        model=manifest.Model(
            **{"name": display_name(spec.model), "layer_count": spec.layer_count, **first.model}
        ),
        batch_size=spec.batch_size,
        sequence_length=spec.sequence_length,
        precision=spec.precision,
        seed=spec.seed,
        attention_reason=first.attention_reason,
        parallel={
            "world_size": spec.rank_count,
            "data_size": spec.data_size,
            "tensor_size": spec.tensor_size,
        },
        steps=manifest.Steps(
            warmup_count=spec.warmup_count,
            measured_count=spec.measured_count,
            repeat_count=spec.repeat_count,
            profiled_count=spec.profiled_count,
        ),
        repeats=repeats,
        extra={
            "learning_rate": spec.learning_rate,
            "is_batch_fixed": spec.is_batch_fixed,
            "memory_limit_bytes": spec.memory_limit_bytes,
            "first_losses": [result.first_loss for result in results],
            "last_losses": [result.last_loss for result in results],
            **first.extra,
        },
    )
    if is_ok:
        run.tokens_per_s_mean = statistics.fmean(rates)
        run.tokens_per_s_std = statistics.stdev(rates) if len(rates) > 1 else None
        run.overhead = overhead_of(first)
    else:
        run.traces, run.light_traces = [], []
    return run


def _repeats(spec: TrainingSpec, results: Sequence[RankResult]) -> list[manifest.Repeat]:
    """Return the throughput of each repeat: tokens of all ranks over the slowest rank's time."""
    tokens = spec.batch_size * spec.sequence_length * spec.data_size * spec.measured_count
    repeats = []
    for index, final_loss in enumerate(results[0].final_losses):
        part = slice(index * spec.measured_count, (index + 1) * spec.measured_count)
        wall_ns = max(sum(result.step_ns[part]) for result in results)
        repeats.append(
            manifest.Repeat(
                tokens_per_s=tokens * NS_PER_S / wall_ns,
                wall_ns=wall_ns,
                step_ns=results[0].step_ns[part],
                final_loss=final_loss,
            )
        )
    return repeats
