"""Creates run folders and traces atomically: writes under a temporary name, then renames.

The working folder of an unfinished run is named `.NAME.partial-MARK`. MARK identifies the owner:
`PID`, `PID.HOST`, or `JOB.HOST` for a folder that several processes share, in which they store
their ids. After a crash, a folder is stale if no owner is running.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import glob
import gzip
import os
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from tracekit import manifest
from tracekit.errors import StoreError, UsageError, WorkloadError
from tracekit.small_files import parse_json, read_small

from ..process.sessions import is_alive

WORK = ".work"
"""Subfolder of a working folder for temporary files."""

_OWNERS = "owners"
# Suffix of temporary folders for files that a process moves out of a working folder.
_MADE = re.compile(r"\.made-(\d+)$")
LOGS = "logs"
LIGHT = "light"
"""Folder of light traces: extra traces without ops and ranges, which analyses do not load."""
_COMPRESSION = 5
_COPY_BYTES = 1 << 20
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


class Ended(Struct, frozen=True):
    folder: Path | None
    exit_code: int


class RunFolder:
    """Context manager around a run, which writes the run folder.

    Files go to `path`, logs to `logs`, temporary files to `work`. `commit` writes the manifest and
    renames the folder; without a commit, no files are left. Without `force`, only a run with
    outcome `failed` and without traces is replaced.
    """

    def __init__(self, target: Path, *, force: bool = False) -> None:
        self.target = target
        self._force = force
        self._committed = False
        self.path = working_folder(target, str(os.getpid()))
        self.logs = self.path / LOGS
        self.work = self.path / WORK

    def __enter__(self) -> RunFolder:
        check_replaceable(self.target, force=self._force)
        with disk_errors(self.target):
            self._remove()
            remove_stale(self.target)
            self.logs.mkdir(parents=True)
            self.work.mkdir()
        return self

    def __exit__(self, _kind: object, error: object, _traceback: object) -> None:
        if not self._committed:
            self._remove()
        if isinstance(error, OSError) and disk_cause(error):
            raise disk_error(self.target, error) from error

    def join(self, path: Path) -> None:
        self.path, self.logs, self.work = path, path / LOGS, path / WORK

    def commit(self, run: manifest.Manifest) -> Path:
        with disk_errors(self.target):
            for name in run.traces:
                (self.path / name).stat()
            shutil.rmtree(self.work, ignore_errors=True)
            manifest.write(run, self.path)
            _sync(self.path / manifest.FILE_NAME)
            _replace(self.path, self.target)
        self._committed = True
        return self.target

    def _remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def default_target(*parts: str) -> Path:
    now = datetime.datetime.now().astimezone()
    return Path("runs") / "-".join([*parts, f"{now:%Y%m%dT%H%M%S}"])


@contextlib.contextmanager
def disk_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise disk_error(target, error) from error


def disk_error(target: Path, error: OSError) -> StoreError:
    hint = None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free space, or use another --out; partial files were removed"
    return StoreError(
        f"{target}: the run folder cannot be written: {error.strerror or error}", hint=hint
    )


def disk_cause(error: BaseException | None) -> OSError | None:
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
            return error
        error = error.__cause__
    return None


def check_replaceable(target: Path, *, force: bool) -> None:
    if not os.path.lexists(target):
        return
    has_run, has_result = _content(target)
    if not has_run and not (target.is_dir() and not any(target.iterdir())):
        raise UsageError(
            f"{target} exists and is not a run folder, so it is not replaced",
            hint="use another --out",
        )
    if has_result and not force:
        raise UsageError(
            f"{target} already contains a run",
            hint="use another --out, or replace it with --force",
        )


def is_replaceable(target: Path, force: bool) -> bool:
    try:
        check_replaceable(target, force=force)
    except UsageError:
        return False
    return True


def _content(target: Path) -> tuple[bool, bool]:
    try:
        value = parse_json(read_small(target / manifest.FILE_NAME))
    except (OSError, ValueError):
        return False, False
    if not isinstance(value, dict):
        return False, False
    return True, value.get("outcome", "ok") != "failed" or bool(value.get("traces"))


def _replace(source: Path, target: Path) -> None:
    old = source.with_name(source.name + ".old")
    if target.is_dir():
        target.rename(old)
    source.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def complete_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path, and move the complete file to its final path.

    Other files in the temporary folder are removed, such as Kineto's own temporary file.
    """
    folder = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        folder.mkdir()
        yield folder / path.name
        (folder / path.name).replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise WorkloadError(
            f"{path}: the trace cannot be written: {reason}",
            hint="free space, or use another --out",
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compress(plain: Path) -> Path:
    """Compress a JSON trace and return its new path; after an error, the file is unchanged."""
    target = plain.with_name(f"{plain.name}.gz")
    with complete_file(target) as aside:
        pack(plain, aside)
    plain.unlink()
    return target


def pack(source: Path, target: Path) -> None:
    with (
        source.open("rb") as plain,
        gzip.GzipFile(target, "wb", compresslevel=_COMPRESSION, mtime=0) as packed,
    ):
        shutil.copyfileobj(plain, packed, _COPY_BYTES)


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
