"""Working folders of unfinished runs, and their removal after a crash.

They are named `.NAME.partial-MARK`. MARK identifies the owner: `PID`, `PID.HOST`, or `JOB.HOST` for
a folder that several processes share, in which they store their ids. A folder is stale if no owner
is running.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import socket
from pathlib import Path

from ..process.sessions import is_alive

WORK = ".work"
"""Subfolder of a working folder for temporary files."""

_OWNERS = "owners"
# Suffix of temporary folders for files that a process moves out of a working folder.
_MADE = re.compile(r"\.made-(\d+)$")


def working_folder(target: Path, mark: str) -> Path:
    whole = target.resolve()
    return whole.parent / f".{whole.name}.partial-{mark}"


def temporary_sibling(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.made-{os.getpid()}")


def host_mark() -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())


def register_owner(folder: Path) -> None:
    owners = folder / WORK / _OWNERS
    owners.mkdir(parents=True, exist_ok=True)
    (owners / str(os.getpid())).touch()


def remove_stale(target: Path) -> None:
    prefix = working_folder(target, "").name
    for path in target.resolve().parent.glob(f"{glob.escape(prefix)}*"):
        makers = _makers(path, path.name.removeprefix(prefix))
        if makers and not any(map(is_alive, makers)):
            shutil.rmtree(path, ignore_errors=True)


def _makers(folder: Path, mark: str) -> list[int]:
    match = _MADE.search(mark)
    who, _, host = _MADE.sub("", mark).partition(".")
    if host not in ("", host_mark()):
        return []
    if match:
        return [int(match[1])]
    if who.isdecimal():
        return [int(who)]
    with contextlib.suppress(OSError):
        return [int(owner.name) for owner in (folder / WORK / _OWNERS).iterdir()]
    return []
