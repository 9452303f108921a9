"""Starts, monitors, and ends the ranks of a run on this machine."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from msgspec import Struct

from tracekit.errors import WorkloadError

from ..machine.hardware import core_count
from .child import OWN_PYTHON, Child, end
from .distributed import Place, place_in
from .ending import describe_exit_code, last_error, signals_as_interrupt

_POLL_S = 0.05
_GRACE_S = 3.0


class Failure(Struct, frozen=True):
    """The first rank that failed; `exit_code` is negative for a signal."""

    rank: int
    exit_code: int
    log: Path

    @property
    def exit_description(self) -> str:
        return describe_exit_code(self.exit_code)

    def __str__(self) -> str:
        last = last_error(self.log, self.exit_code)
        return f"{self.exit_description} ({last})" if last else self.exit_description


def log_path(logs: Path, rank: int) -> Path:
    return logs / f"rank{rank}.log"


def run_ranks(
    arguments: Sequence[str],
    rank_count: int,
    logs: Path,
    *,
    environment: Mapping[str, str | None] | None = None,
    watch: Callable[[], None] = lambda: None,
) -> Failure | None:
    """Run `python` with these arguments once per rank; return the first failed rank.

    If one rank fails, all others are ended. Ctrl-C, SIGTERM, and SIGHUP end all ranks and raise
    `KeyboardInterrupt`. A rank is ended together with its descendants, even if this process is
    killed. `watch` is called about every 50 ms.
    """
    ranks: list[Child] = []
    with signals_as_interrupt():
        try:
            for rank in range(rank_count):
                ranks.append(_start(arguments, rank, rank_count, logs, environment or {}))
            failed = _wait(ranks, logs, watch)
        finally:
            # Processes that outlive their rank are useless, so they are killed immediately.
            end(ranks, _GRACE_S if any(rank.exit_code is None for rank in ranks) else 0)
            codes = [rank.wait() for rank in ranks]
        watch()
    if failed is None:
        return None
    return Failure(failed, codes[failed] or 0, log_path(logs, failed))


def run_as_rank(work: Callable[[Place], int]) -> NoReturn:
    place = place_in(os.environ)
    if place is None:
        raise WorkloadError("a worker needs RANK and WORLD_SIZE")
    exit_code = work(place)
    # Skip the interpreter's shutdown, which can hang or crash while communicators exist. All
    # results are on disk.
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(exit_code)


def _start(
    arguments: Sequence[str],
    rank: int,
    rank_count: int,
    logs: Path,
    environment: Mapping[str, str | None],
) -> Child:
    threads = max(1, core_count() // rank_count)
    variables: dict[str, str | None] = {
        # Local ranks need no network. Without this, gloo fails if the host name does not resolve.
        **({"GLOO_SOCKET_IFNAME": "lo"} if sys.platform.startswith("linux") else {}),
        "OMP_NUM_THREADS": str(threads),
        # With too few cores, threads that spin at barriers slow down working threads.
        "OMP_WAIT_POLICY": "PASSIVE",
        **os.environ,
        **environment,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(rank_count),
        "LOCAL_WORLD_SIZE": str(rank_count),
        "PYTHONUNBUFFERED": "1",
        "KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "6"),
    }
    with log_path(logs, rank).open("wb") as log:
        return Child([*OWN_PYTHON, *arguments], log, added=variables)


def _wait(ranks: Sequence[Child], logs: Path, watch: Callable[[], None]) -> int | None:
    while True:
        codes = [rank.exit_code for rank in ranks]
        failed = {rank: code for rank, code in enumerate(codes) if code not in (None, 0)}
        if failed:
            # A rank ended by a signal did not fail because of others. Of ranks that exited by
            # themselves, the one whose last log entry is the oldest failed first.
            return min(
                failed,
                key=lambda rank: ((failed[rank] or 0) > 0, _log_written_ns(logs, rank), rank),
            )
        if all(code == 0 for code in codes):
            return None
        watch()
        time.sleep(_POLL_S)


def _log_written_ns(logs: Path, rank: int) -> int:
    try:
        return log_path(logs, rank).stat().st_mtime_ns
    except OSError:
        return 0
