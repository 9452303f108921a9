"""Processes, threads, and ports that tests start or look at, on Linux in /proc."""

import contextlib
import os
import random
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def finished(*words, cwd=None, timeout_s=1200, **variables):
    """Run a command to its end, with variables added to the environment.

    The default timeout is only a guard against hangs.
    """
    return subprocess.run(
        [*map(str, words)],
        cwd=cwd,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def stat_of(process):
    """Return the fields after the name in the `stat` of a process; empty if it has ended."""
    try:
        text = Path(f"/proc/{process}/stat").read_text("ascii", "replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def running(processes):
    """Return the processes that run; zombies do not."""
    return [one for one in processes if (stat := stat_of(one)) and stat[0] not in "ZX"]


def ranks_of(launcher):
    """Return the ranks that a process has started, in order."""
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


def wait_for(condition, limit_s=600):
    """Wait until a condition is true, and return its value."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.02)
    return found


def on_a_thread(call):
    """Return the result of a function that is called on another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def free_port():
    """Return an unused port below the range that the system assigns."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", random.randint(20_000, 30_000)))
            return probe.getsockname()[1]
