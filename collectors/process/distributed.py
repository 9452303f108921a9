"""Rank, world size, process group, and gloo threads of this process."""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tracekit.errors import UsageError

from .sessions import read_stat

if TYPE_CHECKING:
    import torch

_TIMEOUT = datetime.timedelta(minutes=30)

_GLOO_LIMIT_S = 0.2
"""Maximum wait, s: a thread of gloo that is busy for longer is running another collective."""

_GLOO_NAME = "pt_gloo_"
_POLL_S = 0.001
_CALM_COUNT = 2
_TASKS = Path("/proc/self/task")


class Place(Struct, frozen=True):
    rank: int
    local_rank: int
    world_size: int


def place_in(environment: Mapping[str, str]) -> Place | None:
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return None
    try:
        place = Place(
            int(environment["RANK"]),
            int(environment.get("LOCAL_RANK", environment["RANK"])),
            int(environment["WORLD_SIZE"]),
        )
    except ValueError as error:
        raise UsageError(f"RANK, LOCAL_RANK, or WORLD_SIZE is not a number: {error}") from error
    if not 0 <= place.rank < place.world_size:
        raise UsageError(f"RANK is {place.rank}, which is outside WORLD_SIZE {place.world_size}")
    return place


def device_of(place: Place) -> torch.device:
    import torch

    if not torch.cuda.is_available():
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if place.local_rank >= count:
        raise UsageError(
            f"the machine has {count} GPUs, but rank {place.rank} would need GPU number "
            f"{place.local_rank + 1}",
            hint="use a smaller --nproc",
        )
    device = torch.device("cuda", place.local_rank)
    torch.cuda.set_device(device)
    return device


@contextlib.contextmanager
def process_group(place: Place, device: torch.device, store: Path | None) -> Iterator[None]:
    """Create the process group of all ranks, if needed, and destroy it at the end.

    `store` is the rendezvous file of local ranks; without it, MASTER_ADDR is used.
    """
    import torch.distributed as dist

    if dist.is_initialized():
        yield
        return
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    dist.init_process_group(
        backend="nccl" if device.type == "cuda" else "gloo",
        init_method="env://" if store is None else f"file://{store}",
        rank=place.rank,
        world_size=place.world_size,
        timeout=_TIMEOUT,
        device_id=device if device.type == "cuda" else None,
    )
    yield
    # Skipped after an error, because it would wait for ranks inside a collective.
    dist.destroy_process_group()
    # Gloo's threads outlive the group. If one of them frees a tensor while the interpreter shuts
    # down, the process aborts ("terminate called without an active exception"), even without
    # tracekit.
    wait_for_gloo_threads()


def from_first_rank(text: str | None) -> str | None:
    import torch.distributed as dist

    values = [text]
    dist.broadcast_object_list(values, src=0)
    return values[0]


def barrier(device: torch.device) -> None:
    """Wait until every rank has arrived and its device is idle."""
    import torch
    import torch.distributed as dist

    if device.type == "cuda":
        torch.cuda.synchronize(device)
        dist.barrier(device_ids=[device.index])
    else:
        dist.barrier()


def wait_for_gloo_threads(limit_s: float = _GLOO_LIMIT_S) -> None:
    """Wait until gloo's threads are idle, before a profile or a worker ends.

    Gloo reports a collective as done before its thread ends the collective's span. If the profile
    ends in between, it frees memory that the thread then writes. The thread also frees the tensors
    of the last collective, which aborts the process during interpreter shutdown.
    """
    if "torch.distributed" not in sys.modules or not gloo_thread_states(_TASKS):
        return
    deadline = time.monotonic() + limit_s
    calm_count = 0
    while calm_count < _CALM_COUNT and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        calm_count = 0 if "R" in gloo_thread_states(_TASKS) else calm_count + 1


def gloo_thread_states(tasks: Path) -> list[str]:
    """Return the states of gloo's threads in `/proc/<pid>/task`; `R` means running or runnable."""
    results = []
    try:
        for task in tasks.iterdir():
            stat = read_stat(task / "stat")
            if stat is not None and stat[0].startswith(_GLOO_NAME):
                results.append(stat[1][0])
    except OSError:
        pass
    return results
