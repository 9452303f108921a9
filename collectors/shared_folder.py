"""A run folder into which the ranks of a job write without having to talk to each other."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tracekit.errors import WorkloadError

from .distributed import Place
from .run_folder import RunFolder

WAIT_S = 600.0
"""How long rank 0 waits for the traces of the others."""


def run_folder(
    target: Path, place: Place, environment: Mapping[str, str], *, force: bool
) -> RunFolder:
    """Return a run folder about whose place in the making all ranks agree.

    Rank 0 makes it and gives it its name; the others only write into it.

    Args:
        target: the name that it is to have; that of rank 0 counts.
        place: which rank this is.
        environment: what the launcher says of the job.
        force: as for `RunFolder`.
    """
    folder = RunFolder(target, force=force)
    if place.world_size > 1:
        names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")
        told = [environment.get(name, "") for name in names]
        if environment.get("LOCAL_WORLD_SIZE") == str(place.world_size):
            told.append(str(os.getppid()))  # one launcher has started all ranks
        token = hashlib.sha256("\0".join(told).encode()).hexdigest()[:12]
        folder.join(folder.path.with_name(f".tracekit.partial-{token}"))
    return folder


def check_ranks(target: Path, ranks: Sequence[int], count: int) -> None:
    """Make sure that every rank has reported.

    Raises:
        WorkloadError: some have not.
    """
    missing = [str(rank) for rank in range(count) if rank not in ranks]
    if missing:
        raise WorkloadError(
            f"{target}: {len(missing)} of {count} ranks left no trace: {', '.join(missing)}",
            hint="every rank must run the recorded loop and see the run folder",
        )
