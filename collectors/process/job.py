"""Job id and rank of a process, from its process group or, before that exists, its launcher."""

from __future__ import annotations

import hashlib
import os
import socket
import uuid
from collections.abc import Mapping
from pathlib import Path

from tracekit.errors import UsageError

from .distributed import Place, place_in
from .sessions import read_stat

_STORE_KEY = "tracekit"
# Variables for the rank, the number of ranks, and the local rank.
_LAUNCHERS = (
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)
_LOCAL_SIZES = (
    "LOCAL_WORLD_SIZE",
    "SLURM_NTASKS_PER_NODE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
)
_IDENTIFIERS = (
    ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"),
    ("OMPI_MCA_ess_base_jobid",),
    ("PMIX_NAMESPACE",),
    ("PMI_JOBID",),
)


_TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")


def launched_place(environment: Mapping[str, str]) -> Place | None:
    try:
        place = place_in(environment)
    except UsageError:  # the program reports invalid variables itself
        place = None
    if place is not None:
        return place
    # Slurm also sets the variables of the first task in a batch script, which is not a task.
    is_batch = "SLURM_JOB_ID" in environment and "SLURM_STEP_ID" not in environment
    for names in _LAUNCHERS:
        if is_batch and names[0].startswith("SLURM"):
            continue
        values = [environment.get(name, "") for name in names]
        if values[0].isdecimal() and values[1].isdecimal():
            local = int(values[2]) if values[2].isdecimal() else 0
            place = Place(int(values[0]), local, int(values[1]))
            if place.rank < place.world_size:
                return place
    return None


def current_place() -> Place:
    import torch.distributed as dist

    launched = launched_place(os.environ)
    if dist.is_available() and dist.is_initialized():
        local = os.environ.get("LOCAL_RANK", "")
        if local.isdecimal():
            local_rank = int(local)
        else:
            local_rank = launched.local_rank if launched is not None else 0
        return Place(dist.get_rank(), local_rank, dist.get_world_size())
    return launched or Place(0, 0, 1)


def local_rank_count(environment: Mapping[str, str]) -> int | None:
    for name in _LOCAL_SIZES:
        value = environment.get(name, "")
        if value.isdecimal():
            return int(value)
    return None


def job_id() -> str:
    """Return an id shared by all ranks: from the group's store, the launcher, or the parent."""
    agreed = agree("job", uuid.uuid4().hex)
    if agreed is not None:
        return agreed
    for names in _IDENTIFIERS:
        if os.environ.get(names[0]):
            return _digest(*(os.environ.get(name, "") for name in names))
    if os.environ.get("TORCHELASTIC_RUN_ID") or os.environ.get("MASTER_PORT"):
        identifiers = [os.environ.get(name, "") for name in _TORCHRUN]
        if os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE"):
            identifiers.append(parent())
        return _digest(*identifiers)
    return _digest(parent())


def parent() -> str:
    """Return a unique id of the parent process on this host."""
    number = os.getppid()
    stat = read_stat(Path(f"/proc/{number}/stat"))
    # The start time is the 20th field after the name.
    began = stat[1][19] if stat is not None and len(stat[1]) > 19 else ""
    return f"{socket.gethostname()} {number} {began}"


def agree(what: str, proposal: str) -> str | None:
    """Return the first proposal of any rank in the process group; None without a group."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return None
    try:
        from torch.distributed.distributed_c10d import _get_default_store

        result = _get_default_store().compare_set(f"{_STORE_KEY}/{what}", "", proposal)
    except Exception:  # noqa: BLE001 - stores raise various exceptions; the value is optional
        return None
    return result.decode() if isinstance(result, bytes) else str(result)


def _digest(*identifiers: str) -> str:
    return hashlib.sha256("\0".join(identifiers).encode()).hexdigest()[:32]
