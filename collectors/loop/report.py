"""Reports of the ranks of a recorded loop, and the manifest built from them."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from tracekit import manifest
from tracekit.units import format_duration

from ..machine import memory
from ..process.distributed import Place
from ..process.job import job_id, local_rank_count
from ..run.environment import of_ranks
from ..run.manifest import manifest_of, sentence, step_cost, write_atomically
from .plan import LoopPlan, default_ranks, is_traced

EVALUATION_NOTE = (
    "calls of the model or a copy of it in evaluation mode between steps count as "
    "evaluation, outside the step time"
)

GRADLESS_NOTE = (
    "calls of the model without gradients in training mode count as step time; call "
    "model.eval() before evaluation"
)

APART_NOTE = "steps took {before} before the profile and {after} after it; the later ones are used"
MIXED_NOTE = "no step time: models train alternately for several steps each"
IN_TURN_NOTE = "no step time: threads take turns, and only the steps of one thread are visible"
COMPILED_OPTIMIZER_NOTE = "the optimizer is compiled: its work is in phase forward or other"

OWN_PROFILER_NOTE = (
    "the loop has its own profiler, so tracekit's did not run; it wrote no Chrome trace"
)


_SUFFIX = ".report.json"
Report = TypeVar("Report", bound="LoopReport")


class LoopReport(Struct, kw_only=True):
    """Measurements of one rank, written after every update because a rank may end abruptly.

    The last `after_count` timed steps ran after the profiled ones. The step time is based on
    `plain_ns` or, if that is None, on all timed steps (`step_ns`). `memory`, `environment`, and
    `layout` contain the known members of `manifest.RankMemory`, `Environment`, and `Parallel`.
    `trace` is a file name in the run folder. The report describes loop `loop_number` of the
    process, whose traces are in subfolder `folder` of the working folder. The previous loop had
    `before_count` steps.

    - `is_recorded`: the first window is over, so a run folder can be built.
    - `is_complete`: the timed steps after the first window are over, too.
    - `is_cut_short`: there are fewer profiled steps than planned.
    - `is_final`: there are no further updates.
    """

    rank: int
    world_size: int
    outcome: manifest.Outcome = "ok"
    reason: str | None = None
    ended_unix_ns: int = 0
    ranges_step_ns: int | None = None
    profiled_step_ns: int | None = None
    light_step_ns: int | None = None
    attention_backend: str | None = None
    memory: dict[str, int] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    trace: str | None = None
    light_trace: str | None = None
    notes: list[str] = field(default_factory=list)
    local_rank: int = 0
    local_rank_count: int | None = None
    job_id: str | None = None
    is_recorded: bool = False
    is_complete: bool = False
    is_final: bool = False
    is_traced: bool = True
    loop_number: int = 1
    before_count: int = 0
    later_count: int = 0
    longest_later: int = 0
    step_count: int = 0
    warmup_count: int = 0
    step_ns: list[int] = field(default_factory=list)
    after_count: int = 0
    plain_ns: list[int] | None = None
    is_in_turn: bool = False
    plain_phase_ns: dict[str, int] = field(default_factory=dict)
    token_count: int = 0
    is_without_ids: bool = False
    batch_size: int | None = None
    sequence_length: int | None = None
    gradient_accumulation: int | None = None
    precision: str | None = None
    profiled_count: int = 0
    is_cut_short: bool = False
    export_stall_ns: int | None = None
    engine: str = "torch"
    layout: dict[str, Any] = field(default_factory=dict)
    folder: str = ""
    # The windows after the first, each with `first_step`, `step_count`, and `trace`.
    windows: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, place: Place, plan: LoopPlan) -> LoopReport:
        return cls(
            rank=place.rank,
            world_size=place.world_size,
            local_rank=place.local_rank,
            local_rank_count=local_rank_count(os.environ),
            job_id=job_id(),
            is_traced=is_traced(plan.ranks, place),
            warmup_count=plan.warmup_count,
        )

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def note_error(self, error: BaseException) -> None:
        self.ended_unix_ns = time.time_ns()
        if memory.is_out_of_memory(error):
            self.outcome, self.reason = "oom", memory.out_of_memory_reason(error)
        else:
            self.outcome, self.reason = "failed", sentence(error)

    def write(self, folder: Path) -> None:
        write_atomically(
            folder / f"rank{self.rank}{_SUFFIX}", json.dumps(msgspec.to_builtins(self))
        )

    def note_accumulation(self, counts: Sequence[int]) -> None:
        if not counts:
            return
        self.gradient_accumulation = round(statistics.median(counts))
        if min(counts) != max(counts):
            self.note(f"an optimizer steps after {min(counts)} to {max(counts)} backward passes")

    def finalize(self, plan: LoopPlan, loop_count: int = 1) -> None:
        is_missing = self.trace is None and self.is_traced
        is_short = self.step_count < plan.step_count
        if is_missing and self.outcome == "ok" and (is_short or OWN_PROFILER_NOTE in self.notes):
            too_few = plan.too_few(self.step_count, loop_count)
            self.reason = too_few if is_short else OWN_PROFILER_NOTE
            self.notes = [note for note in self.notes if note != self.reason]
            self.outcome, self.ended_unix_ns = "failed", time.time_ns()
        # The loop's own profiler may have written its trace at any time.
        self.is_recorded = self.is_recorded or self.trace is not None
        self.is_complete = self.is_recorded
        self.is_final = True


def read_reports(folder: Path, kind: type[Report]) -> list[Report]:
    results = []
    for path in folder.glob(f"*{_SUFFIX}"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            results.append(kind(**json.loads(path.read_text("utf-8"))))
    return sorted(results, key=lambda report: report.rank)


def loop_notes(reports: Sequence[LoopReport]) -> list[str]:
    if not reports:
        return []
    notes = []
    first = reports[0]
    if first.loop_number > 1 and first.is_recorded:
        notes.append(
            f"loop {first.loop_number} of this process is recorded; the previous loop, "
            f"with another model or optimizer, ended after {first.before_count} steps"
        )
    if first.longest_later > 1:
        several = f"{first.later_count} later loops with up to {first.longest_later} steps"
        single = f"a later loop with {first.longest_later} steps"
        notes.append(f"{single if first.later_count == 1 else several}: not recorded")
    if len({report.loop_number for report in reports}) > 1:
        notes.append("ranks had different numbers of loops before the recorded one")
    return notes


def first_failure(reports: Sequence[LoopReport]) -> LoopReport | None:
    """Return the first report of an out-of-memory error, or else of any failure.

    The other ranks often fail as a consequence.
    """
    failed = [report for report in reports if report.outcome != "ok"]
    key = lambda report: (report.outcome != "oom", report.ended_unix_ns)  # noqa: E731
    return min(failed, key=key, default=None)


def manifest_of_ranks(
    stage: manifest.Stage,
    engine: str,
    command: Sequence[str],
    reports: Sequence[LoopReport],
    *,
    parallel: Mapping[str, Any],
    **members: Any,
) -> manifest.Manifest:
    hosts = {report.environment.get("host_name") for report in reports if report.environment}
    return manifest_of(
        stage,
        engine,
        command,
        attention_backend=reports[0].attention_backend if reports else None,
        parallel=manifest.Parallel(**{**parallel, "node_count": max(1, len(hosts))}),
        peak_memory=[
            manifest.RankMemory(rank=report.rank, **report.memory)
            for report in reports
            if report.memory
        ],
        environment=of_ranks(report.environment for report in reports),
        traces=[report.trace for report in reports if report.trace],
        light_traces=[report.light_trace for report in reports if report.light_trace],
        notes=list(dict.fromkeys(note for report in reports for note in report.notes)),
        **members,
    )


def make_manifest(
    reports: Sequence[LoopReport],
    plan: LoopPlan,
    command: Sequence[str],
    *,
    outcome: manifest.Outcome = "ok",
    reason: str | None = None,
    exit_code: int | None = None,
) -> manifest.Manifest:
    first = reports[0] if reports else LoopReport(rank=0, world_size=1)
    unknown = dict.fromkeys(("data_size", "tensor_size", "pipeline_size"))
    run = manifest_of_ranks(
        plan.stage,
        first.engine,
        command,
        reports,
        outcome=outcome,
        reason=reason,
        model=manifest.Model(**first.model) if first.model else None,
        batch_size=first.batch_size,
        sequence_length=first.sequence_length,
        gradient_accumulation=first.gradient_accumulation,
        precision=first.precision,
        parallel={"world_size": first.world_size, **(first.layout or unknown)},
        steps=manifest.Steps(
            warmup_count=first.warmup_count if reports else plan.warmup_count,
            measured_count=len(first.step_ns),
            profiled_count=max((report.profiled_count for report in reports), default=0),
        ),
        overhead=overhead_of(
            first,
            export_stall_ns=max(
                (report.export_stall_ns for report in reports if report.export_stall_ns),
                default=None,
            ),
        ),
        job_id=first.job_id,
        exit_code=exit_code,
        ranks=[_rank(report) for report in reports],
    )
    _add_throughput(run, first, reports)
    _add_notes(run, reports, plan)
    return run


def overhead_of(first: LoopReport, export_stall_ns: int | None = None) -> manifest.Overhead:
    overhead = manifest.Overhead(export_stall_ns=export_stall_ns)
    steps = first.step_ns if first.plain_ns is None else first.plain_ns
    if steps or first.plain_ns is None:  # otherwise the steps are not comparable
        for name in ("ranges_step_ns", "profiled_step_ns", "light_step_ns"):
            setattr(overhead, name, getattr(first, name))
    if steps:
        several = steps if len(steps) > 1 else 2 * steps
        tenths = statistics.quantiles(several, n=10, method="inclusive")
        # Of few steps, the lower median may be below the interpolated 10th percentile.
        median = statistics.median_low(steps)
        low, high = min(round(tenths[0]), median), max(round(tenths[8]), median)
        overhead.plain_step_ns, overhead.plain_after_count = median, first.after_count
        overhead.plain_step_low_ns, overhead.plain_step_high_ns = low, high
        overhead.plain_phase_ns = first.plain_phase_ns
    return overhead


def _rank(report: LoopReport) -> manifest.Rank:
    return manifest.Rank(
        rank=report.rank,
        host_name=report.environment.get("host_name"),
        outcome=report.outcome,
        reason=report.reason,
        step_count=report.step_count,
        token_count=report.token_count,
        wall_ns=sum(report.step_ns),
        trace=report.trace,
    )


def _add_throughput(
    run: manifest.Manifest, first: LoopReport, reports: Sequence[LoopReport]
) -> None:
    rate = manifest.tokens_per_s(run)
    wall_ns = max((rank.wall_ns for rank in run.ranks), default=0)
    if wall_ns:
        run.repeats = [manifest.Repeat(tokens_per_s=rate, wall_ns=wall_ns, step_ns=first.step_ns)]
        run.tokens_per_s_mean = rate
    if rate is not None:
        if run.parallel.data_size is None:
            run.notes.append(
                f"tokens/s are per rank, because it is unknown how {first.world_size} "
                "ranks share the data"
            )
    elif wall_ns:
        known = "the model gets no token ids"
        unknown = "the input of the model may not be token ids"
        is_known = all(report.is_without_ids for report in reports)
        run.notes.append(f"{known if is_known else unknown}, so tokens/s are unknown")


def _add_notes(run: manifest.Manifest, reports: Sequence[LoopReport], plan: LoopPlan) -> None:
    run.notes += loop_notes(reports)
    count = run.parallel.world_size
    untraced = [report.rank for report in reports if not report.is_traced]
    if untraced:
        chosen = plan.ranks or default_ranks(count)
        run.notes.append(
            f"{len(untraced)} of the {len(reports)} ranks are not traced: --ranks {chosen}"
        )
    local_count = reports[0].local_rank_count if reports else None
    if local_count is not None and len(reports) < local_count and count <= local_count:
        missing = sorted(set(range(count)) - {report.rank for report in reports})
        run.notes.append(
            f"no report from {len(missing)} of {count} ranks: {', '.join(map(str, missing))}"
        )


def summary(run: manifest.Manifest, target: Path) -> list[str]:
    lines = []
    overhead = run.overhead
    if overhead and overhead.plain_step_ns:
        text = step_cost(overhead, [ns for repeat in run.repeats for ns in repeat.step_ns])
        if run.tokens_per_s_mean:
            text += f"; {run.tokens_per_s_mean:,.0f} tokens/s"
        lines.append(text)
    if overhead and overhead.export_stall_ns:
        stall = format_duration(overhead.export_stall_ns)
        lines.append(f"the program paused for {stall} to write its trace")
    lines += [f"note: {note}" for note in run.notes]
    if run.traces:
        lines.append(f"show the time breakdown: tracekit breakdown {target}")
    else:
        lines.append(f"the run folder contains no trace: {target}")
    return lines
