"""The manifest of a run, whatever ran: who it was and when, and what its ranks say of themselves.

Each kind of run adds what it alone knows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tracekit import __version__
from tracekit.errors import TracekitError
from tracekit.manifest import Manifest, Outcome, Overhead, RankMemory, Stage
from tracekit.redaction import mask_text
from tracekit.units import format_duration

from ..machine import memory
from .environment import of_ranks

_SUFFIX = ".report.json"
Report = TypeVar("Report", bound="RankReport")


@dataclass(slots=True)
class RankReport:
    """What a rank says of itself, in a file of the working folder.

    `memory` has members of `manifest.RankMemory`, `environment` those of `manifest.Environment`;
    they are empty of a rank that did not get so far. `trace` is a name in the run folder.
    """

    rank: int
    outcome: Outcome = "ok"
    reason: str | None = None
    ended_unix_ns: int = 0
    ranges_step_ns: int | None = None
    profiled_step_ns: int | None = None
    attention_backend: str | None = None
    memory: dict[str, int] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    trace: str | None = None
    notes: list[str] = field(default_factory=list)

    def note_error(self, error: BaseException) -> None:
        self.ended_unix_ns = time.time_ns()
        if memory.is_out_of_memory(error):
            self.outcome, self.reason = "oom", memory.out_of_memory_reason(error)
        else:
            self.outcome, self.reason = "failed", sentence(error)

    def write(self, folder: Path) -> None:
        """Leave the report in a folder, whole or not at all."""
        path = folder / f"rank{self.rank}{_SUFFIX}"
        write_whole(path, json.dumps(dataclasses.asdict(self)))


def read_reports(folder: Path, kind: type[Report]) -> list[Report]:
    """Return the reports in a folder, by rank; one that cannot be read is left out."""
    found = []
    for path in folder.glob(f"*{_SUFFIX}"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            found.append(kind(**json.loads(path.read_text("utf-8"))))
    return sorted(found, key=lambda report: report.rank)


def sentence(error: BaseException) -> str:
    if isinstance(error, TracekitError):
        return error.message
    text = mask_text(str(error).strip().split("\n", 1)[0][:300])
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def write_whole(path: Path, text: str) -> None:
    """Write a file that others may be reading: it is whole at all times."""
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    partial.write_text(text, "utf-8")
    partial.replace(path)


def manifest_of(
    stage: Stage,
    engine: str,
    command: Sequence[str],
    reports: Sequence[RankReport] = (),
    *,
    outcome: Outcome = "ok",
    reason: str | None = None,
    **members: Any,
) -> Manifest:
    """Return the manifest of a run that has just ended.

    `members` are further members of `Manifest`; they come before what the reports say.
    """
    of_reports: dict[str, Any] = {
        "attention_backend": reports[0].attention_backend if reports else None,
        "peak_memory": [
            RankMemory(rank=report.rank, **report.memory) for report in reports if report.memory
        ],
        "traces": [report.trace for report in reports if report.trace],
        "notes": list(dict.fromkeys(note for report in reports for note in report.notes)),
    }
    if "environment" not in members:
        of_reports["environment"] = of_ranks(report.environment for report in reports)
    return Manifest(
        run_id=uuid.uuid4().hex,
        tracekit_version=__version__,
        created_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        stage=stage,
        engine=engine,
        outcome=outcome,
        reason=reason,
        command=list(command),
        **{**of_reports, **members},
    )


def node_count(reports: Sequence[RankReport]) -> int:
    """Return on how many machines ranks ran; one where none says it."""
    hosts = {report.environment.get("host_name") for report in reports if report.environment}
    return max(1, len(hosts))


def rate_text(run: Manifest) -> str:
    if run.tokens_per_s_mean is None:
        return "? tokens/s"
    spread = "" if run.tokens_per_s_std is None else f" ± {run.tokens_per_s_std:,.0f}"
    return f"{run.tokens_per_s_mean:,.0f}{spread} tokens/s"


def step_cost(overhead: Overhead, plain_step_ns: Sequence[int]) -> str:
    """Return mean step times: plain, with ranges, with the profiler too; and the plain ones' range.

    A few steps vary by more than what ranges cost, so the times are said, not a difference.

    Of `overhead`, `plain_step_ns` is known.
    """
    text = f"step {format_duration(overhead.plain_step_ns or 0)}"
    if len(plain_step_ns) > 1:
        text += f" ({format_duration(min(plain_step_ns))} to {format_duration(max(plain_step_ns))})"
    if overhead.ranges_step_ns is not None:
        text += f"; with ranges {format_duration(overhead.ranges_step_ns)}"
    if overhead.profiled_step_ns is not None:
        text += f"; with ranges and profiler {format_duration(overhead.profiled_step_ns)}"
    return text
