"""Runs processes and measures their time and memory.

Uses only the standard library. On Linux, a command's peak includes the memory of the forking
process, so the measuring process must stay small.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SAMPLE_S = 0.01
# Installed packages are compiled. The first round compiles a source tree, unless this variable
# prevents it.
_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}


class Cost(Struct, frozen=True):
    """Wall and CPU time in seconds, and peak resident memory, of a process or process tree."""

    wall_s: float
    peak_bytes: int
    cpu_s: float = 0.0


class Contestant(Struct):
    """A command that is measured several times, with the cost of each run."""

    name: str
    command: Sequence[str | Path]
    env: Mapping[str, str] = field(default_factory=dict)
    costs: list[Cost] = field(default_factory=list)

    @property
    def wall_s(self) -> float:
        return statistics.median(cost.wall_s for cost in self.costs)

    @property
    def cpu_s(self) -> float:
        """Return the median CPU time in seconds."""
        return statistics.median(cost.cpu_s for cost in self.costs)

    @property
    def peak_bytes(self) -> float:
        return statistics.median(cost.peak_bytes for cost in self.costs)

    def row(self) -> str:
        """Return a line of text with the medians and the range of the times."""
        times = [cost.wall_s for cost in self.costs]
        return (
            f"{self.name:<28} {self.wall_s:8.3f} s   ({min(times):.3f} to {max(times):.3f})"
            f"   {self.peak_bytes / 1e6:8.1f} MB"
        )


def measure(
    command: Sequence[str | Path], env: Mapping[str, str] | None = None, *, tree: bool = False
) -> Cost:
    """Run a command to its end.

    Args:
        command: the program and its arguments.
        env: variables to add to the environment.
        tree: sum the memory of all processes, sampled every 10 ms. By default, the peak is the
        kernel's exact value for the largest process.

    Raises:
        SystemExit: the command failed; its error output is shown.
    """
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**_ENVIRONMENT, **(env or {})},
        )
        sampler = _TreeSampler(process.pid) if tree else None
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        sampled_bytes = sampler.stop() if sampler else 0
        if process.returncode:
            errors.seek(0)
            sys.exit(f"{command} failed:\n{errors.read().decode(errors='replace')}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return Cost(wall_s, max(usage.ru_maxrss * 1024, sampled_bytes), cpu_s)


def compete(contestants: Sequence[Contestant], repeats: int) -> None:
    """Measure all in alternating order, after a warm-up round."""
    for contestant in contestants:
        measure(contestant.command, contestant.env)
    for nth in range(repeats):
        for contestant in contestants if nth % 2 == 0 else reversed(contestants):
            contestant.costs.append(measure(contestant.command, contestant.env))


def verdict(name: str, value: float, limit: float, *, at_least: bool = False) -> bool:
    """Print a figure with its limit, and return whether it meets the limit."""
    holds = value >= limit if at_least else value <= limit
    relation = "at least" if at_least else "at most"
    print(f"{name:<46} {value:8.3f}   {relation} {limit:g}   {'ok' if holds else 'MISSED'}")
    return holds


class _TreeSampler:
    """Samples the peak sum of resident memory of a process and its descendants from /proc."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak_bytes = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Stop sampling and return the peak in bytes."""
        self._stopped.set()
        self._thread.join()
        return self._peak_bytes

    def _sample(self) -> None:
        while not self._stopped.wait(_SAMPLE_S):
            self._peak_bytes = max(self._peak_bytes, _tree_bytes(self._pid))


def _tree_bytes(pid: int) -> int:
    folder = Path("/proc") / str(pid)
    try:
        pages = int((folder / "statm").read_text().split()[1])
        children = [
            int(child)
            for thread in (folder / "task").iterdir()
            for child in (thread / "children").read_text().split()
        ]
    except (OSError, IndexError, ValueError):  # the process has just ended
        return 0
    return pages * _PAGE_BYTES + sum(map(_tree_bytes, children))
