"""Temporary folders and files of a process, for builds and spilled data."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tracekit.errors import StoreError

_BUILD_SUFFIX = ".building"
_ELSEWHERE = "free space, or set TMPDIR to a folder on another disk"


def building_folder(final: Path) -> Path:
    """Create a folder next to the final path of a store, for building it."""
    prefix = f".{final.name}.{host()}.{os.getpid()}."
    return Path(tempfile.mkdtemp(prefix=prefix, suffix=_BUILD_SUFFIX, dir=final.parent))


@contextlib.contextmanager
def atomic_path(final: Path, move: Callable[[Path, Path], object] = os.replace) -> Iterator[Path]:
    """Yield a temporary path in the same folder, and rename it when the block ends.

    If the block fails, nothing is written. A long temporary name is truncated, so only the final
    name can be too long. `move` renames the file; by default, it replaces an existing file.
    """
    sweep(final.parent)
    name = f".{final.name[:50]}.{host()}.{os.getpid()}.{os.urandom(6).hex()}{_BUILD_SUFFIX}"
    building = final.with_name(name)
    try:
        yield building
        move(building, final)
    finally:
        with contextlib.suppress(OSError):
            building.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove incomplete files in a folder that ended processes of this host have left.

    Files of other hosts are ignored, because their processes are not visible here.
    """
    for path in folder.glob(f".*{_BUILD_SUFFIX}"):
        *_, owner, pid, _ = ("", "", *path.name.removesuffix(_BUILD_SUFFIX).split("."))
        if owner == host() and _is_ended_process(pid):
            shutil.rmtree(path, ignore_errors=True)
            with contextlib.suppress(OSError):
                path.unlink()


def temporary_folder() -> Path:
    """Create a private folder in the temporary folder, and remove folders of ended processes."""
    top = temporary_place()
    prefix = f"tracekit-{host()}-"
    for path in top.glob(f"{prefix}*"):
        pid = path.name.removeprefix(prefix).partition("-")[0]
        with contextlib.suppress(OSError):
            is_ours = path.lstat().st_uid == os.getuid() and not path.is_symlink()
            if is_ours and _is_ended_process(pid):
                shutil.rmtree(path, ignore_errors=True)
    try:
        return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=top))
    except OSError as error:
        is_full = error.errno == errno.ENOSPC
        why = "the disk is full; nothing was written" if is_full else error.strerror
        raise StoreError(f"{top}: {why}", hint=_ELSEWHERE) from error


def temporary_place() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        raise StoreError(f"no temporary folder is writable: {error}", hint=_ELSEWHERE) from error


@functools.cache
def host() -> str:
    """Return an identifier of this host or container, in which process ids are unique."""
    name = platform.node()
    with contextlib.suppress(OSError):
        # Containers may share a host name and a folder, but not their processes.
        name += str(Path("/proc/self/ns/pid").readlink())
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def _is_ended_process(pid: str) -> bool:
    if not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False
