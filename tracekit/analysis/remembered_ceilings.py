"""The ceilings that were measured on devices here, one file for each device in the cache folder.

They are no cache of traces: only the device could say them again. So they stay when the cache is
cleared, unless that is asked for. A file holds the points that make the ceilings, with their times;
the rates are worked out anew whenever they are read. What is measured later takes the place of what
was measured before, kind by kind: a ceiling says what the device does now, with the driver, clocks
and limits of power that it has now, and not what it once did.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tracekit.analysis.bench_points import REMEMBERED_VERSION, Point, Remembered, read_points
from tracekit.analysis.ceiling_rates import ceilings_of
from tracekit.database import ceilings_dir, is_writable_by_all
from tracekit.errors import StoreError, UsageError

_MAX_NAME = 60


@dataclass(frozen=True, slots=True)
class RememberedDevice:
    """One file of remembered ceilings; `source_path` is the run that was measured last."""

    path: Path
    device_name: str
    source_path: str
    size_bytes: int
    modified_s: float


def file_of(device_name: str) -> Path:
    """Return where the ceilings of a device are, or would be, by its name."""
    plain = device_name.strip().lower()
    # The digest tells names apart that look alike as file names.
    digest = hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:12]
    readable = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_MAX_NAME]
    return ceilings_dir() / f"{readable or 'device'}-{digest}.json"


def remember(run: Path) -> list[str]:
    """Keep what a run measured, for all traces of the same devices.

    Of each kind of ceiling the newest run counts; what it did not measure stays as it was.

    Args:
        run: a run folder of `tracekit bench`, or its `benchmarks.jsonl`.

    Returns:
        The names of the devices whose ceilings are kept now; none if nothing was measured that
        could be one.

    Raises:
        UsageError: there is nothing measured, or it cannot be read.
        StoreError: the cache folder cannot be written.
    """
    measured: dict[str, list[Point]] = {}
    for ceiling in ceilings_of(read_points(run).points):
        measured.setdefault(ceiling.device_name.strip(), []).append(ceiling.point)
    for name, points in measured.items():
        path = file_of(name)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(path.parent):
                _write(path, name, [*_known(path), *points])
        except OSError as error:
            raise StoreError(
                f"{path}: the ceilings cannot be kept: {error.strerror or error}",
                hint="set TRACEKIT_CACHE_DIR to a folder that can be written",
            ) from error
    return list(measured)


def recall(device_name: str) -> list[Point]:
    """Return the remembered points of a device by its name; none where any user could write them.

    Raises:
        UsageError: there is a file, and it cannot be read.
    """
    path = file_of(device_name)
    if not path.exists() or any(map(is_writable_by_all, path.parents[:2])):
        return []
    return read_points(path).points


def list_remembered() -> list[RememberedDevice]:
    """Return what is remembered, by the name of the device."""
    found = []
    for path in sorted(_files()):
        device_name, source_path = "?", "?"
        with contextlib.suppress(UsageError):
            points = read_points(path).points
            newest = max(points, key=lambda point: point.measured_at or "")
            device_name, source_path = newest.device_name or "?", newest.run_path or "?"
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append(
                RememberedDevice(path, device_name, source_path, status.st_size, status.st_mtime)
            )
    return found


def forget_all() -> int:
    """Remove all remembered ceilings; return of how many devices there were any.

    Raises:
        StoreError: a file cannot be removed.
    """
    files = _files()
    for path in files:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"{path}: cannot be removed: {error.strerror or error}",
                hint="may you write to its folder?",
            ) from error
    return len(files)


def _files() -> list[Path]:
    return list(ceilings_dir().glob("*.json")) if ceilings_dir().is_dir() else []


def _known(path: Path) -> list[Point]:
    """Return what a file holds; nothing if it cannot be read: it is written anew then."""
    try:
        return read_points(path).points if path.exists() else []
    except UsageError:
        return []


def _write(path: Path, name: str, points: list[Point]) -> None:
    """Replace a file by one with the points that make a ceiling, at once and as a whole."""
    kept = list(dict.fromkeys(ceiling.point for ceiling in ceilings_of(points)))
    found = Remembered(schema_version=REMEMBERED_VERSION, device_name=name, points=kept)
    text = msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"
    number, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(text)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _locked(where: Path) -> Iterator[None]:
    """Let one process at a time read and replace files, where the system can."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    number = os.open(where / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
