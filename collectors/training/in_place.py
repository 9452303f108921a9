"""A training run in which this process is one of the ranks, started by torchrun or the like.

Rank 0 makes the run folder, which every node must see; all ranks write into it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from tracekit.errors import StoreError, TracekitError, WorkloadError

from ..process.distributed import Place, barrier, device_of, from_first_rank, process_group
from ..process.signals import signals_as_interrupt
from ..run.folder import RunFolder
from .outcome import raise_outcome, summary
from .result import RankResult, make_manifest, read_results
from .spec import TrainingSpec
from .worker import run_rank


def run_in_place(
    spec: TrainingSpec, place: Place, target: Path, force: bool, echo: Callable[[str], None]
) -> Path:
    """Train as the rank that the environment names and return the run folder.

    Raises:
        TracekitError: the folder cannot be made, or this rank failed.
    """
    device = device_of(place)
    with contextlib.ExitStack() as stack:
        stack.enter_context(signals_as_interrupt())
        stack.enter_context(process_group(place, device, None))
        folder = RunFolder(target, force=force)
        refusal: TracekitError | None = None
        if place.rank == 0:
            try:
                stack.enter_context(folder)
            except TracekitError as error:
                refusal = error
        made = from_first_rank(None if refusal else str(folder.path))
        if made is None:
            raise refusal or WorkloadError(f"{target}: rank 0 could not make the run folder")
        folder.join(Path(made))
        say = echo if place.rank == 0 else _to_nobody
        result = run_rank(spec, place, folder.path, folder.work, say=say)
        if result.outcome != "ok":
            _record_failure(spec, folder, result)
        barrier(device)  # every result is on disk once all are here
        if place.rank == 0:
            run = make_manifest(spec, read_results(folder.work, spec.rank_count))
            folder.commit(run)
            for line in summary(run, target):
                echo(line)
    return target


def _record_failure(spec: TrainingSpec, folder: RunFolder, result: RankResult) -> None:
    """Write the manifest of a run that this rank could not finish: the launcher ends the others.

    Several ranks may get here. The first has the cause, and its folder stands.

    Raises:
        WorkloadError: always.
    """
    run = make_manifest(
        spec,
        read_results(folder.work, spec.rank_count),
        outcome="oom" if result.outcome == "oom" else "failed",
        reason=f"rank {result.rank} of {spec.rank_count}: {result.reason}",
    )
    with contextlib.suppress(StoreError, FileNotFoundError):
        folder.commit(run)
    raise_outcome(run, folder.target)


def _to_nobody(line: str) -> None:
    del line
