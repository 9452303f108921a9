"""Processes and ports that tests look at, on Linux by /proc."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def stat_of(process: int) -> list[str]:
    """Return what stands after its name in the `stat` of a process, nothing if it has ended."""
    try:
        text = Path(f"/proc/{process}/stat").read_text("ascii", "replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def running(processes: Iterable[int]) -> list[int]:
    """Return those that run; a zombie does not."""
    return [one for one in processes if (stat := stat_of(one)) and stat[0] not in "ZX"]


def ranks_of(launcher: int) -> list[int]:
    """Return the ranks that a process has started, in their order."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        rank = next((text for text in variables if text.startswith(b"RANK=")), None)
        if rank is not None and stat_of(int(folder.name))[1:2] == [str(launcher)]:
            found[int(rank[5:])] = int(folder.name)
    return [found[rank] for rank in sorted(found)]


def wait_for(condition: Callable[[], Any], limit_s: float = 60) -> Any:
    """Wait until something is true, and return it."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return found


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
