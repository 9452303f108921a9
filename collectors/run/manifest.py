"""The manifest of a run, whatever ran: who it was and when, and what its ranks say of themselves.

Each kind of run adds what it alone knows.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tracekit import __version__
from tracekit.manifest import Manifest, Outcome, RankMemory, Stage

from .environment import of_ranks


class RankReport(Protocol):
    """What a rank says of itself.

    `memory` has members of `manifest.RankMemory`, `environment` those of `manifest.Environment`;
    they are empty of a rank that did not get so far. `trace` is a name in the run folder.
    """

    @property
    def rank(self) -> int: ...  # noqa: D102
    @property
    def attention_backend(self) -> str | None: ...  # noqa: D102
    @property
    def memory(self) -> Mapping[str, int]: ...  # noqa: D102
    @property
    def environment(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def trace(self) -> str | None: ...  # noqa: D102
    @property
    def notes(self) -> Sequence[str]: ...  # noqa: D102


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

    Args:
        stage: what kind of run it was.
        engine: what ran it.
        command: the command line.
        reports: those of its ranks, in their order; none of a run that has none of its own.
        outcome: what became of it.
        reason: why it is not `ok`.
        **members: further members of `Manifest`; they come before what the reports say.
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
