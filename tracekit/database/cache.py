"""Cache of stores: paths, keys, and eviction."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from tracekit.database.connections import explained
from tracekit.database.opening import open_store
from tracekit.errors import StoreError
from tracekit.schema import SCHEMA_VERSION
from tracekit.small_files import parse_json, read_small
from tracekit.storage import Location, Place
from tracekit.storage.temp_dirs import atomic_path, sweep, temporary_folder
from tracekit.units import GB, format_bytes

CACHE_LIMIT_BYTES = 20 * GB
"""Maximum size of the cache. The oldest stores are evicted. TRACEKIT_CACHE_LIMIT_BYTES overrides
it."""

SAMPLE_BYTES = 16 << 10

SAMPLE_COUNT = 16
"""Number of text samples per file that the key of a store covers, in addition to one at the end."""

STORE_SUFFIX = ".duckdb"

DATASET_SUFFIX = ".tracekit"
"""Suffix of datasets, which are folders with a manifest."""


_OWN_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{24}(?:\.duckdb|\.tracekit)")


class CachedStore(Struct, frozen=True):
    path: Path
    source_path: str
    size_bytes: int
    modified_s: float


def cache_dir() -> Path:
    folder = os.environ.get("TRACEKIT_CACHE_DIR")
    if folder:
        return Path(folder).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME")
    base = Path(xdg) if xdg and Path(xdg).is_absolute() else Path.home() / ".cache"
    return base / "tracekit"


def cached_store_path(sources: Sequence[Place], digest: str) -> Path:
    """Return the path of the cached store of these files.

    The name consists of two digests. The first covers only the paths, which identifies older stores
    of the same files. The second covers the path, size, inode, times, and text samples of each
    file, the schema version, and ``digest``. For a URL, it covers the text without secrets, and the
    server's size and ETag.
    """
    names = hashlib.sha256()
    state = hashlib.sha256(f"{SCHEMA_VERSION} {digest}".encode())
    for source in sources:
        name = os.fsencode(source.resolve()) if isinstance(source, Path) else str(source).encode()
        names.update(name + b"\0")
        state.update(name + b"\0" + _state_of(source))
    return cache_dir() / f"{names.hexdigest()[:16]}-{state.hexdigest()[:24]}{STORE_SUFFIX}"


def _state_of(source: Place) -> bytes:
    """Return a digest of the state of a file: file system data and samples of its content.

    The samples detect that a file was replaced by one with the same size and times.
    """
    if not isinstance(source, Path):
        return hashlib.sha256(str(source.identity()).encode()).digest()
    with source.open("rb") as file:
        status = os.fstat(file.fileno())
        size = status.st_size
        digest = hashlib.sha256(
            f"{size} {status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns}".encode()
        )
        last = max(0, size - SAMPLE_BYTES)
        for place in sorted({last * number // SAMPLE_COUNT for number in range(SAMPLE_COUNT + 1)}):
            file.seek(place)
            digest.update(file.read(SAMPLE_BYTES))
    return digest.digest()


def forget_older(store: Path) -> None:
    """Remove stores of older versions of the same files and, in a full cache, the oldest stores."""
    prefix = store.name.split("-", 1)[0]
    for other in _cache_files(store.parent):
        if other.name.startswith(f"{prefix}-") and other != store:
            forget(other)
    most_bytes = limit_bytes()
    total_bytes = 0
    for file in sorted(_cache_files(store.parent), key=_modified_s, reverse=True):
        total_bytes += _size_bytes(file)
        if total_bytes > most_bytes and file != store:
            forget(file)


def limit_bytes() -> int:
    text = os.environ.get("TRACEKIT_CACHE_LIMIT_BYTES", "")
    return int(text) if text.isdecimal() else CACHE_LIMIT_BYTES


def forget(store: Path) -> None:
    with contextlib.suppress(OSError):
        _remove(store)


def is_private(folder: Path) -> bool:
    try:
        status = folder.stat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def is_writable_by_all(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & 0o002)
    except OSError:
        return False


def touch(store: Path) -> None:
    with contextlib.suppress(OSError):
        os.utime(store)


def list_cached() -> list[CachedStore]:
    """Return the stores in the cache, the most recently used first."""
    import duckdb

    results = []
    for file in sorted(_cache_files(cache_dir()), key=_modified_s, reverse=True):
        if file.suffix == DATASET_SUFFIX:
            size_bytes, used_s = _size_bytes(file), _modified_s(file)
            results.append(CachedStore(file, _source_of_dataset(file), size_bytes, used_s))
            continue
        source = "?"
        with contextlib.suppress(duckdb.Error, StoreError, UnicodeDecodeError):
            connection = open_store(file)
            try:
                rows = connection.execute(
                    "SELECT path FROM store.main.trace UNION ALL "
                    "SELECT path FROM store.main.run WHERE NOT EXISTS (FROM store.main.trace)"
                ).fetchall()
            finally:
                connection.close()
            more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
            source = f"{rows[0][0]}{more}" if rows else "?"
        results.append(CachedStore(file, source, _size_bytes(file), _modified_s(file)))
    return results


def _source_of_dataset(dataset: Path) -> str:
    try:
        traces = parse_json(read_small(dataset / "manifest.json"))["traces"]
        more = f" and {len(traces) - 1} more" if len(traces) > 1 else ""
        return f"{traces[0]['location']}{more}"
    except (OSError, ValueError, LookupError, TypeError):
        return "?"


def clear_cache() -> int:
    folder = cache_dir()
    count = 0
    for file in _cache_files(folder):
        try:
            _remove(file)
        except OSError as error:
            raise StoreError(
                f"{file}: cannot be removed: {error.strerror or error}",
                hint="check the permissions of its folder",
            ) from error
        count += 1
    if folder.is_dir():
        sweep(folder)
    return count


def _cache_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [file for file in folder.iterdir() if _OWN_NAME.fullmatch(file.name)]


def _remove(store: Path) -> None:
    if store.suffix == DATASET_SUFFIX:
        with contextlib.suppress(FileNotFoundError):
            # Remove the manifest first: without it, the folder is not a dataset, even if removing
            # the other files fails.
            (store / "manifest.json").unlink(missing_ok=True)
            shutil.rmtree(store)
    else:
        store.unlink(missing_ok=True)


def _modified_s(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _size_bytes(file: Path) -> int:
    try:
        if file.suffix == DATASET_SUFFIX:
            return sum(one.stat().st_size for one in file.rglob("*") if one.is_file())
        return file.stat().st_size
    except OSError:
        return 0


PIECE_BYTES = 1 << 20

OnBytes = Callable[[int, int], None]


def fetch_store(
    location: Location,
    resources: contextlib.ExitStack,
    *,
    is_cached: bool = True,
    on_bytes: OnBytes | None = None,
) -> Path:
    try:
        size_bytes, identity = location.size_bytes(), location.identity()
    except OSError as error:
        raise StoreError(f"{location}: cannot be read: {error.strerror or error}") from None
    _check_size(location, size_bytes or 0)
    if is_cached and identity is not None:
        name = hashlib.sha256(location.shown.encode()).hexdigest()[:16]
        state = hashlib.sha256(identity.encode()).hexdigest()[:24]
        final = cache_dir() / f"{name}-{state}{STORE_SUFFIX}"
        if final.is_file():
            touch(final)
            return final
        with explained(final):
            final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with atomic_path(final) as copy:
                _fetch(location, copy, size_bytes or 0, on_bytes)
        forget_older(final)
        return final
    folder = temporary_folder()
    resources.callback(shutil.rmtree, folder, ignore_errors=True)
    copy = folder / "store.duckdb"
    _fetch(location, copy, size_bytes or 0, on_bytes)
    return copy


def _check_size(location: Location, size_bytes: int) -> None:
    if size_bytes > limit_bytes():
        raise StoreError(
            f"{location}: the store needs {format_bytes(size_bytes)} in a cache limited "
            f"to {format_bytes(limit_bytes())}",
            hint="raise TRACEKIT_CACHE_LIMIT_BYTES",
        )


def _fetch(location: Location, copy: Path, size_bytes: int, on_bytes: OnBytes | None) -> None:
    done_bytes = 0
    with contextlib.ExitStack() as open_files:
        with explained(copy):
            out = open_files.enter_context(copy.open("xb"))
            copy.chmod(0o600)
        while True:
            try:
                if not done_bytes:
                    source = open_files.enter_context(location.open())
                piece = source.read(PIECE_BYTES)
            except OSError as error:
                raise StoreError(f"{location}: cannot be read: {error.strerror or error}") from None
            if not piece:
                return
            with explained(copy):
                out.write(piece)
            done_bytes += len(piece)
            _check_size(location, done_bytes)
            if on_bytes is not None:
                on_bytes(done_bytes, size_bytes)
