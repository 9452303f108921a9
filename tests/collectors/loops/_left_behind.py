"""What a program leaves behind: files, and processes that did not end with it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path

# What differs each time in names of files: the end of a temporary name, a UUID, a time.
_DRAWN = re.compile(r"(?<=_)[a-z0-9_]{8}(?=/|$)|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{6,}")


def files_of(work: Path) -> list[str]:
    """Return what lies around a program, by names without what differs each time."""
    while True:
        # Another program of the folder may be removing something just now.
        with contextlib.suppress(FileNotFoundError):
            return _names(work)


def _names(work: Path) -> list[str]:
    found = []
    for top in ("work", "home", "tmp"):
        folder = work.parent / top
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(work.parent).as_posix()
            if not name.startswith("work/run/") and name != "work/run":
                found.append(_DRAWN.sub("N", name))
    return found


def left_of(token: str, wait_s: float) -> list[str]:
    """Return the processes that still run after some time, or at once if there are none."""
    deadline = time.monotonic() + wait_s
    while True:
        found = [_words(pid) for pid in _pids(token)]
        if not found or time.monotonic() > deadline:
            return sorted(found)
        time.sleep(0.1)


def end_all(token: str) -> None:
    for pid in _pids(token):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _pids(token: str) -> list[int]:
    """Return the processes that were started with a token in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if token.encode() in (path / "environ").read_bytes() and _state(path) != "Z":
                found.append(int(path.name))
    return found


def _state(path: Path) -> str:
    return (path / "stat").read_text().rpartition(")")[2].split()[0]


def _words(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return ""
