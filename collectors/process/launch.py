"""Starts and monitors the ranks of a run on this machine, and ends all of them."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tracekit.errors import WorkloadError

from ..machine.hardware import core_count
from .child import OWN_PYTHON, Child, end
from .distributed import Place, place_in
from .ending import describe_exit_code, last_error
from .signals import signals_as_interrupt

_POLL_S = 0.05
_GRACE_S = 3.0


@dataclass(frozen=True, slots=True)
class Failure:
    """The first rank that failed.

    `exit_code` is negative for a signal, as in `subprocess`.
    """

    rank: int
    exit_code: int
    log: Path

    @property
    def exit_description(self) -> str:
        return describe_exit_code(self.exit_code)

    def __str__(self) -> str:
        last = self.last_error()
        return f"{self.exit_description} ({last})" if last else self.exit_description

    def last_error(self) -> str:
        return last_error(self.log, self.exit_code)


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
    """Run a Python module once for each rank and wait for all of them.

    A rank that ends badly ends the others. An interrupt ends all and goes on as
    `KeyboardInterrupt`; so do SIGTERM and SIGHUP. What a rank started goes with it, and each dies
    by itself should this process be killed.

    Args:
        arguments: what follows `python`: `["-m", "module", …]`.
        rank_count: how many to start; each finds RANK, LOCAL_RANK and WORLD_SIZE.
        logs: the folder that takes stdout and stderr of each, as `rank<N>.log`.
        environment: added to the environment of all; what is None is taken away.
        watch: called about every 50 ms.
    """
    ranks: list[Child] = []
    with signals_as_interrupt():
        try:
            for rank in range(rank_count):
                ranks.append(_start(arguments, rank, rank_count, logs, environment or {}))
            failed = _wait(ranks, logs, watch)
        finally:
            # What those that have ended left running is of no use to anybody.
            end(ranks, _GRACE_S if any(rank.exit_code is None for rank in ranks) else 0)
            codes = [rank.wait() for rank in ranks]
        watch()
    if failed is None:
        return None
    return Failure(failed, codes[failed] or 0, log_path(logs, failed))


def run_as_rank(work: Callable[[Place], int]) -> NoReturn:
    """Run a rank started by `run_ranks`, and exit with its exit code."""
    place = place_in(os.environ)
    if place is None:
        raise WorkloadError("a worker needs RANK and WORLD_SIZE")
    exit_code = work(place)
    # Interpreter shutdown with live communicators can hang or crash; everything is on disk.
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
        # Local ranks need no network; a host name that does not resolve stops gloo without this.
        **({"GLOO_SOCKET_IFNAME": "lo"} if sys.platform.startswith("linux") else {}),
        "OMP_NUM_THREADS": str(threads),
        # Threads that spin at barriers take the cores from one another where there are too few.
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
    """Wait until all processes succeed or one fails; return the first failed one."""
    while True:
        codes = [rank.exit_code for rank in ranks]
        failed = {rank: code for rank, code in enumerate(codes) if code not in (None, 0)}
        if failed:
            # One that a signal ended did not end because of the others; of those that ended by
            # themselves, the first had said its last word first.
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
