"""Folders and files that go with the process that made them: those of builds, and what spills."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import shutil
import tempfile
from pathlib import Path

_BUILD_SUFFIX = ".building"


def building_folder(final: Path) -> Path:
    """Make a folder beside the final name of a store, for building it.

    Raises:
        OSError: it cannot be made.
    """
    prefix = f".{final.name}.{host()}.{os.getpid()}."
    return Path(tempfile.mkdtemp(prefix=prefix, suffix=_BUILD_SUFFIX, dir=final.parent))


def building_file(final: Path) -> Path:
    """Return a name for a file that is written before it gets its final name, in the same folder.

    A long name is cut: the whole of one that is too long is for the disk to refuse.
    """
    passing = f".{final.name[:50]}.{host()}.{os.getpid()}.{os.urandom(6).hex()}{_BUILD_SUFFIX}"
    return final.with_name(passing)


def sweep(folder: Path) -> None:
    """Remove what processes of this host that are gone left behind unfinished.

    The folder may be shared with other hosts, whose processes cannot be seen from here.
    """
    for left in folder.glob(f".*{_BUILD_SUFFIX}"):
        *_, owner, pid, _ = ("", "", *left.name.removesuffix(_BUILD_SUFFIX).split("."))
        if owner == host() and pid.isdigit() and not _is_alive(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
            with contextlib.suppress(OSError):
                left.unlink()


def temporary_folder() -> Path:
    """Make a folder in the temporary folder, for this user alone, and sweep what others left there.

    Raises:
        OSError: it cannot be made.
    """
    top = Path(tempfile.gettempdir())
    prefix = f"tracekit-{host()}-"
    for left in top.glob(f"{prefix}*"):
        pid = left.name.removeprefix(prefix).partition("-")[0]
        with contextlib.suppress(OSError):
            is_ours = left.lstat().st_uid == os.getuid() and not left.is_symlink()
            if is_ours and pid.isdigit() and not _is_alive(int(pid)):
                shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=top))


@functools.cache
def host() -> str:
    """Return what tells the processes that can be seen from here from those of others."""
    name = platform.node()
    with contextlib.suppress(OSError):
        # Containers may share a name and a folder, but not their processes.
        name += str(Path("/proc/self/ns/pid").readlink())
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
