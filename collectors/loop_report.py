"""What each rank reports of a loop that was recorded, and the manifest that is made of it."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import statistics
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit.collectors.step_cost import step_cost

from tracekit import __version__, manifest
from tracekit.units import NS_PER_S

from .environment import probe
from .loop_plan import LoopPlan

_SUFFIX = ".report.json"
_POLL_S = 0.1


@dataclass(slots=True)
class LoopReport:
    """What one rank measured. `step_ns` are the timed steps, `token_count` is of all of them.

    `is_final` says that the loop had not ended when it was written, so that nothing it does later
    belongs to what was measured.
    """

    rank: int
    world_size: int
    outcome: str = "ok"
    reason: str | None = None
    is_final: bool = False
    step_count: int = 0
    step_ns: list[int] = field(default_factory=list)
    token_count: int = 0
    batch_size: int | None = None
    sequence_length: int | None = None
    precision: str | None = None
    profiled_count: int = 0
    ranges_step_ns: int | None = None
    profiled_step_ns: int | None = None
    engine: str = "torch"
    attention_backend: str | None = None
    memory: dict[str, int] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    trace: str | None = None
    notes: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Leave the report in a folder, whole or not at all."""
        path = folder / f"rank{self.rank}{_SUFFIX}"
        partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
        partial.write_text(json.dumps(dataclasses.asdict(self)), "utf-8")
        partial.replace(path)


def read_reports(folder: Path) -> list[LoopReport]:
    """Return the reports in a folder, by rank."""
    found = [
        LoopReport(**json.loads(path.read_text("utf-8"))) for path in folder.glob(f"*{_SUFFIX}")
    ]
    return sorted(found, key=lambda report: report.rank)


def wait_for_reports(folder: Path, rank_count: int, timeout_s: float) -> list[LoopReport]:
    """Return the reports of all ranks, or of those that came in time, or up to a failure."""
    deadline = time.monotonic() + timeout_s
    while True:
        reports = read_reports(folder)
        is_whole = len(reports) == rank_count
        is_hopeless = any(report.outcome != "ok" for report in reports)
        if is_whole or is_hopeless or time.monotonic() > deadline:
            return reports
        time.sleep(_POLL_S)


def make_manifest(
    reports: Sequence[LoopReport],
    plan: LoopPlan,
    command: Sequence[str],
    *,
    outcome: manifest.Outcome = "ok",
    reason: str | None = None,
) -> manifest.Manifest:
    """Return the manifest of a run.

    Args:
        reports: those of all ranks, at least one.
        plan: what was asked for.
        command: what was run.
        outcome: what became of it.
        reason: why it is not `ok`.
    """
    first = reports[0]
    wall_ns = max(sum(report.step_ns) for report in reports)
    token_count = sum(report.token_count for report in reports)
    repeats = []
    rate = None
    notes = [note for report in reports for note in report.notes]
    if wall_ns and token_count:
        rate = token_count * NS_PER_S / wall_ns
        repeats = [manifest.Repeat(tokens_per_s=rate, wall_ns=wall_ns, step_ns=first.step_ns)]
    elif wall_ns:
        notes.append("the model is given no token ids, so there is no figure in tokens/s")
    hosts = {report.environment.get("host_name") for report in reports}
    return manifest.Manifest(
        run_id=uuid.uuid4().hex,
        tracekit_version=__version__,
        created_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        stage=plan.stage,
        engine=first.engine,
        outcome=outcome,
        reason=reason,
        command=list(command),
        model=manifest.Model(**first.model) if first.model else None,
        batch_size=first.batch_size,
        sequence_length=first.sequence_length,
        precision=first.precision,
        attention_backend=first.attention_backend,
        parallel=manifest.Parallel(
            world_size=first.world_size, data_size=first.world_size, node_count=len(hosts)
        ),
        steps=manifest.Steps(
            warmup_count=plan.warmup_count,
            measured_count=len(first.step_ns),
            profiled_count=first.profiled_count,
        ),
        repeats=repeats,
        tokens_per_s_mean=rate,
        peak_memory=[
            manifest.RankMemory(rank=report.rank, **report.memory)
            for report in reports
            if report.memory
        ],
        overhead=manifest.Overhead(
            plain_step_ns=round(statistics.fmean(first.step_ns)) if first.step_ns else None,
            ranges_step_ns=first.ranges_step_ns,
            profiled_step_ns=first.profiled_step_ns,
        ),
        environment=manifest.Environment(**first.environment) if first.environment else probe(),
        traces=[report.trace for report in reports if report.trace],
        notes=list(dict.fromkeys(notes)),
        extra={"plain_step_ns": first.step_ns},
    )


def summary(run: manifest.Manifest, target: Path) -> list[str]:
    """Return what a person wants to know first, in a few lines."""
    lines = []
    overhead = run.overhead
    if overhead and overhead.plain_step_ns:
        text = step_cost(overhead, run.extra.get("plain_step_ns", ()))
        if run.tokens_per_s_mean:
            text += f"; {run.tokens_per_s_mean:,.0f} tokens/s"
        lines.append(text)
    lines += [f"note: {note}" for note in run.notes]
    lines.append(f"see where the time went: tracekit breakdown {target}")
    return lines
