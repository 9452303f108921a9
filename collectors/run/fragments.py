"""Moves a run folder to its final path, or merges it with other fragments of its job.

Each process of a job (one per node or rank) builds a folder for its ranks. If the folders have the
same path, later processes add their files to the first folder, which is always a valid run folder
because of a lock. If another run has the name, the next free name is used.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from tracekit import manifest
from tracekit.errors import StoreError, TraceError

from .folder import LIGHT, LOGS, RunFolder, disk_errors, is_replaceable
from .manifest import write_atomically

_LOCK_S = 20.0
"""Maximum wait for a lock. Many ranks may arrive at once, but each holds the lock only briefly."""

_STALE_S = 60.0
_POLL_S = 0.05
_MAX_NAMES = 1000


def commit_fragment(fragment: Path, target: Path, run: manifest.Manifest, *, force: bool) -> Path:
    """Move a folder to its final path, or merge it with the run there; return the run folder."""
    with disk_errors(target), _lock(target) as is_locked:
        for place in _names(target):
            if not os.path.lexists(place) or (place == target and is_replaceable(place, force)):
                folder = RunFolder(place, force=True)
                folder.join(fragment)
                folder.commit(run)
                return place
            if is_locked and _add(fragment, place, run):
                return place
    raise StoreError(f"{target}: no free name for the run folder; the data is in {fragment}")


def _names(target: Path) -> Iterator[Path]:
    yield target
    for number in range(2, _MAX_NAMES):
        yield target.with_name(f"{target.name}-{number}")


def _add(fragment: Path, place: Path, run: manifest.Manifest) -> bool:
    try:
        there = manifest.read(place)
    except TraceError:
        return False
    if not manifest.are_fragments([there, run]):
        return False
    # The manifest is written last, after all files that it names.
    for path in sorted(fragment.iterdir()):
        if path.name in (LOGS, LIGHT):
            (place / path.name).mkdir(exist_ok=True)
            for file in path.iterdir():
                file.replace(place / path.name / file.name)
        elif path.is_dir():
            _add_window(path, place / path.name)
        elif path.name != manifest.FILE_NAME:
            path.replace(place / path.name)
    _write(manifest.join_fragments([there, run]), place)
    shutil.rmtree(fragment, ignore_errors=True)
    return True


def _add_window(window: Path, place: Path) -> None:
    if not place.exists():
        window.rename(place)
        return
    run, there = manifest.read(window), manifest.read(place)
    for name in run.traces:
        (window / name).replace(place / name)
    _write(manifest.join_fragments([there, run]), place)


def _write(run: manifest.Manifest, folder: Path) -> None:
    write_atomically(folder / manifest.FILE_NAME, manifest.to_json(run))


def rewrite(run: manifest.Manifest, folder: Path) -> None:
    """Replace the manifest of a run; keep fragments that other processes have added."""
    with disk_errors(folder), _lock(folder):
        there = manifest.read(folder)
        own = {rank.rank for rank in run.ranks}
        others = [rank for rank in there.ranks if rank.rank not in own]
        if others:
            there.ranks = others
            there.traces = [name for name in there.traces if name not in run.traces]
            there.light_traces = [
                name for name in there.light_traces if name not in run.light_traces
            ]
            there.peak_memory = [one for one in there.peak_memory if one.rank not in own]
            run = manifest.join_fragments([there, run])
        _write(run, folder)


@contextlib.contextmanager
def _lock(target: Path) -> Iterator[bool]:
    """Hold the lock of a run folder; yield False if the lock is not available."""
    path = target.with_name(f".{target.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + _LOCK_S
    has_it = False
    while not has_it and time.monotonic() < deadline:
        try:
            # Creating a folder is atomic on all file systems, including network file systems.
            path.mkdir()
            has_it = True
        except FileExistsError:
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _STALE_S:  # its owner has ended
                    path.rmdir()
            time.sleep(_POLL_S)
    try:
        yield has_it
    finally:
        if has_it:
            with contextlib.suppress(OSError):
                path.rmdir()
