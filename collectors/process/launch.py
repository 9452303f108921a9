"""Start the ranks of a run on this machine, watch them, and leave none behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..run.environment import core_count
from .signals import signals_as_interrupt

__all__ = [
    "OWN_PYTHON",
    "Failure",
    "die_with_launcher",
    "log_path",
    "run_ranks",
    "signals_as_interrupt",
    "sweep_variables",
]

OWN_PYTHON = (sys.executable, "-P")
"""Starts a Python of ours: the current folder is the user's, and no module is taken from it."""

# `ValueError: …`, `Fatal Python error: …`, `terminate called after throwing …`
_ERROR = re.compile(r"[\w.]*(?:Error|Exception)\b|Fatal|terminate called|\S+: error: ")
_POLL_S = 0.05
_TAIL_BYTES = 1 << 16
_TAIL_LINES = 3
_REASON_LENGTH = 400
_GRACE_S = 3.0
_PARENT_VARIABLE = "TRACEKIT_LAUNCHER_PID"
_SWEEP_VARIABLE = "TRACEKIT_SWEEP_PID"
_LINUX_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Failure:
    """The rank that ended first, and not well.

    `exit_code` is negative for a signal, as in `subprocess`.
    """

    rank: int
    exit_code: int
    log: Path

    @property
    def how(self) -> str:
        """How it ended, in words: `exit code 1`, `signal SIGKILL`."""
        if self.exit_code >= 0:
            return f"exit code {self.exit_code}"
        try:
            return f"signal {signal.Signals(-self.exit_code).name}"
        except ValueError:
            return f"signal {-self.exit_code}"

    def last_error(self) -> str:
        """Return the last line of its log that tells of an error, else its last lines.

        One that was killed from outside had no say in it: its last lines are about something else.
        """
        lines = [line.strip() for line in _tail(self.log).splitlines() if line.strip()]
        for text in reversed(lines):
            if _ERROR.match(text):
                return text[:_REASON_LENGTH]
        if -self.exit_code in (signal.SIGKILL, signal.SIGTERM):
            return ""
        said = [line for line in lines if "Warning: " not in line]
        return " | ".join(said[-_TAIL_LINES:])[-_REASON_LENGTH:]


def log_path(logs: Path, rank: int) -> Path:
    """Return the path of a rank's log."""
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
    `KeyboardInterrupt`; so do SIGTERM and SIGHUP. Each rank has a process group of its own, so that
    what it started goes with it, and dies by itself should this process be killed.

    Args:
        arguments: what follows `python`: `["-m", "module", …]`.
        rank_count: how many to start; each finds RANK, LOCAL_RANK and WORLD_SIZE.
        logs: the folder that takes stdout and stderr of each, as `rank<N>.log`.
        environment: added to the environment of all; what is None is taken away.
        watch: called about every 50 ms.

    Returns:
        The rank that failed first, or None.
    """
    processes: list[subprocess.Popen[bytes]] = []
    with signals_as_interrupt():
        try:
            for rank in range(rank_count):
                processes.append(_start(arguments, rank, rank_count, logs, environment or {}))
            failed = _wait(processes, logs, watch)
        finally:
            _end(processes)
        watch()
    if failed is None:
        return None
    return Failure(failed, processes[failed].returncode, log_path(logs, failed))


def die_with_launcher() -> None:
    """Make this rank end when its launcher is gone, however that ended (Linux)."""
    launcher = os.environ.get(_PARENT_VARIABLE)
    if launcher is not None:
        _end_with(int(launcher), signal.SIGKILL)


def sweep_variables() -> dict[str, str]:
    """Return what a process finds in its environment that is to end with this one."""
    return {_SWEEP_VARIABLE: str(os.getpid())}


def end_with_sweep() -> None:
    """Make this process end, in good order, when the sweep that started it is gone (Linux)."""
    # Taken away, so that nothing that this process starts takes itself for a cell.
    sweep = os.environ.pop(_SWEEP_VARIABLE, None)
    if sweep is not None:
        _end_with(int(sweep), signal.SIGTERM)


def _end_with(parent: int, number: signal.Signals) -> None:
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_LINUX_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it went before we asked
        os.kill(os.getpid(), number)


def _start(
    arguments: Sequence[str],
    rank: int,
    rank_count: int,
    logs: Path,
    environment: Mapping[str, str | None],
) -> subprocess.Popen[bytes]:
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
        _PARENT_VARIABLE: str(os.getpid()),
    }
    with log_path(logs, rank).open("wb") as log:
        return subprocess.Popen(
            [*OWN_PYTHON, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={name: value for name, value in variables.items() if value is not None},
            start_new_session=True,
        )


def _wait(
    processes: Sequence[subprocess.Popen[bytes]], logs: Path, watch: Callable[[], None]
) -> int | None:
    """Wait until all have ended well or one has not, and return that one: the first, of several."""
    while True:
        codes = [process.poll() for process in processes]
        failed = [rank for rank, code in enumerate(codes) if code not in (None, 0)]
        if failed:
            # One that a signal ended did not end because of the others; of those that ended by
            # themselves, the first had said its last word first.
            return min(
                failed,
                key=lambda rank: (processes[rank].returncode > 0, _last_word_ns(logs, rank), rank),
            )
        if all(code == 0 for code in codes):
            return None
        watch()
        time.sleep(_POLL_S)


def _last_word_ns(logs: Path, rank: int) -> int:
    try:
        return log_path(logs, rank).stat().st_mtime_ns
    except OSError:
        return 0


def _tail(log: Path) -> str:
    """Return the end of a log, however long it is."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End what still runs: ask first, then kill; and what its group left running."""
    for process in processes:
        if process.poll() is None:
            _signal_group(process, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    for process in processes:
        _signal_group(process, signal.SIGKILL)
        process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
