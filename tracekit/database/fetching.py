"""A store behind a URL: DuckDB reads local files, so it is fetched once and kept in the cache.

It is known by its URL and the tag that its store or server gives it: the next time nothing is
fetched, until it changes. What would not fit in the cache is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from tracekit.database.cache import STORE_SUFFIX, cache_dir, forget_older, limit_bytes, touch
from tracekit.database.connections import explained
from tracekit.errors import StoreError
from tracekit.storage import Location
from tracekit.storage.temp_dirs import atomic_path, temporary_folder
from tracekit.units import format_bytes

PIECE_BYTES = 1 << 20

OnBytes = Callable[[int, int], None]


def fetch_store(
    location: Location,
    resources: contextlib.ExitStack,
    *,
    is_kept: bool = True,
    on_bytes: OnBytes | None = None,
) -> Path:
    """Return a local copy of a store that lies behind a URL.

    Args:
        location: of the store.
        resources: takes on removing the copy, where it is not kept.
        is_kept: keep it in the cache, so that it is there the next time.
        on_bytes: called now and then with the bytes fetched and those in all.

    Raises:
        StoreError: it cannot be read, is larger than the cache may be, or there is no room for it.
    """
    try:
        size_bytes, identity = location.size_bytes(), location.identity()
    except OSError as error:
        raise StoreError(f"{location}: cannot be read: {error.strerror or error}") from None
    _check_size(location, size_bytes or 0)
    if is_kept and identity is not None:
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
            f"{location}: the store has {format_bytes(size_bytes)}, and would go to a cache "
            f"that may hold {format_bytes(limit_bytes())}",
            hint="set TRACEKIT_CACHE_LIMIT_BYTES to allow more",
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
