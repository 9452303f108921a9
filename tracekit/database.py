"""Stores: DuckDB files that are whole or absent, and the cache of stores.

A store is built in a folder of its own beside its final name and moved there when it is complete.
Whoever looks at the final name sees the old store, or the new one, or none.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.errors import StoreError
from tracekit.schema import RUN_TABLES, SCHEMA_VERSION, TABLES
from tracekit.sql_text import quote
from tracekit.units import GB, MB

if TYPE_CHECKING:
    import duckdb

MEMORY_LIMITS = ("112MB", "256MB", "512MB", "1GB", "2GB")
"""What DuckDB's buffers may hold before they spill to disk.

The first is enough for a trace of some tens of MB, the second for any size so far. The others are
there for the day that they are not: a step that does not fit is tried again with the next one.
TRACEKIT_MEMORY_LIMIT fixes the limit instead.
"""

SMALL_SOURCE_BYTES = 100 * MB
"""Up to this much JSON text the first limit is tried first."""

SMALL_STORE_BYTES = 16 * MB
"""In a store up to this size a second thread costs a query more than it saves."""

CHECKPOINT_THRESHOLD = "64MB"
"""How much may be loaded before it is compressed and written: often costs time, seldom memory."""

CACHE_LIMIT_BYTES = 20 * GB
"""The oldest stores go when the cache outgrows this. TRACEKIT_CACHE_LIMIT_BYTES overrides it."""

SAMPLE_BYTES = 16 << 10
SAMPLE_COUNT = 16
"""How much of a file its cached store is known by, at so many places and at its end."""

SCRATCH = "scratch"
"""The database in memory that a build has besides the store."""

STORE_SUFFIX = ".duckdb"
_BUILD_SUFFIX = ".building"


@dataclass(frozen=True, slots=True)
class CachedStore:
    """One store in the cache: its file, the trace it was made from, bytes, time of last use."""

    path: Path
    source_path: str
    size_bytes: int
    modified_s: float


@dataclass(frozen=True, slots=True)
class Build:
    """A store in the making: an open connection and a folder for temporary files.

    Besides the store, the connection has a database ``scratch`` in memory.
    """

    connection: duckdb.DuckDBPyConnection
    folder: Path


# -- building --------------------------------------------------------------------------------------


@contextlib.contextmanager
def build_store(
    final: Path, sources: Sequence[Path] = (), *, replaces: bool = True
) -> Iterator[Build]:
    """Build a store and move it to its final name when the block ends without an error.

    Args:
        final: where the store shall lie.
        sources: what it is made of; nobody may read it who may not read all of these.
        replaces: what lies there is replaced; else a file that has come meanwhile is kept.

    Raises:
        StoreError: the folder cannot be written, the disk is full, or there is a file that is kept.
    """
    with _explained(final):
        final.parent.mkdir(parents=True, exist_ok=True)
        _sweep(final.parent)
        folder = _building_folder(final)
    try:
        with _explained(final):
            partial = folder / "store.duckdb"
            connection = _connect(partial, folder)
            try:
                create_tables(connection)
                yield Build(connection, folder)
                connection.execute("CHECKPOINT")
            finally:
                connection.close()
            partial.chmod(_mode_of(sources))
            if replaces:
                partial.replace(final)
            else:
                _move_if_free(partial, final)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _mode_of(sources: Sequence[Path]) -> int:
    """Return the permissions of a store: what the user's mask and every source of it allow."""
    mask = os.umask(0o077)
    os.umask(mask)
    mode = 0o644 & ~mask
    for source in sources:
        mode &= source.stat().st_mode | 0o200
    return mode | 0o600


def _move_if_free(partial: Path, final: Path) -> None:
    """Move a file to a name that nothing may have taken.

    Raises:
        StoreError: something has.
    """
    taken = StoreError(f"{final}: exists already", hint="--force replaces it")
    try:
        final.hardlink_to(partial)
    except FileExistsError as error:
        raise taken from error
    except OSError:
        # A disk without hard links.
        if os.path.lexists(final):
            raise taken from None
        partial.rename(final)


@contextlib.contextmanager
def build_temporary() -> Iterator[Build]:
    """Build a store that is never seen under a name and goes with its connection.

    Raises:
        StoreError: the temporary folder cannot be written, or the disk is full.
    """
    with _explained(Path(tempfile.gettempdir())):
        folder = temporary_folder()
    try:
        with _explained(folder):
            connection = _connect(None, folder)
            try:
                create_tables(connection)
                yield Build(connection, folder)
            finally:
                connection.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _connect(path: Path | None, folder: Path) -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect()
    _set_limits(connection, folder / "spill")
    connection.execute(f"ATTACH ':memory:' AS {SCRATCH}")
    if path is not None:
        # What is built here is thrown away unless it is complete: a log of it would be waste.
        connection.execute(
            f"ATTACH {quote(str(path))} AS store (RECOVERY_MODE NO_WAL_WRITES); USE store; "
            f"SET checkpoint_threshold = {quote(CHECKPOINT_THRESHOLD)}"
        )
    return connection


def _set_limits(connection: duckdb.DuckDBPyConnection, spill_folder: Path | None) -> None:
    """Bound the memory; what is too much goes to a folder, where there is one."""
    limit = os.environ.get("TRACEKIT_MEMORY_LIMIT", MEMORY_LIMITS[1])
    connection.execute(f"SET memory_limit = {quote(limit)}")
    connection.execute(f"SET temp_directory = {quote(str(spill_folder or ''))}")


def with_room(
    connection: duckdb.DuckDBPyConnection, text_bytes: int, step: Callable[[], None]
) -> None:
    """Do a step of building a store in as little memory as it takes.

    Args:
        connection: of the store that is being built.
        text_bytes: how much JSON text the store is made of, roughly.
        step: what to do; does nothing by halves when it runs out of memory.

    Raises:
        duckdb.OutOfMemoryException: the last limit, or that of TRACEKIT_MEMORY_LIMIT, is too low.
    """
    import duckdb

    if "TRACEKIT_MEMORY_LIMIT" in os.environ:
        step()
        return
    limits = MEMORY_LIMITS[0 if text_bytes <= SMALL_SOURCE_BYTES else 1 :]
    for limit in limits:
        connection.execute(f"SET memory_limit = {quote(limit)}")
        try:
            step()
        except duckdb.OutOfMemoryException:
            if limit == limits[-1]:
                raise
        else:
            return


def cursor_of(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return a second connection to the same store, for another thread."""
    row = connection.execute("SELECT current_database()").fetchone()
    cursor = connection.cursor()
    # A cursor begins in the database that its connection was opened with.
    cursor.execute(f"USE {row[0] if row else 'memory'}")
    return cursor


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the ingested tables, but for those of run folders."""
    for table in TABLES:
        if table not in RUN_TABLES:
            connection.execute(table.create_sql())


def create_run_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables of run folders; apart, so that it can be done while a trace is read."""
    connection.execute("; ".join(table.create_sql() for table in RUN_TABLES))


@contextlib.contextmanager
def _explained(final: Path) -> Iterator[None]:
    """Turn what the disk answers into one sentence."""
    import duckdb

    try:
        yield
    except OSError as error:
        if isinstance(error, duckdb.Error):
            raise
        raise _disk_error(final, error.errno, error.strerror or str(error)) from error
    except (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.FatalException) as error:
        text = str(error)
        is_full = "No space left" in text or "ENOSPC" in text or "max_temp_directory_size" in text
        raise _disk_error(final, errno.ENOSPC if is_full else None, text.splitlines()[0]) from error


def _disk_error(final: Path, number: int | None, text: str) -> StoreError:
    if number == errno.ENOSPC:
        return StoreError(
            f"{final}: the disk is full; nothing was written",
            hint="free space, or set TRACEKIT_CACHE_DIR or -o to a folder on another disk",
        )
    return StoreError(
        f"{final}: the store cannot be written: {text}",
        hint="set TRACEKIT_CACHE_DIR or -o to a folder that can be written, or use --no-cache",
    )


def _building_folder(final: Path) -> Path:
    prefix = f".{final.name}.{_host()}.{os.getpid()}."
    return Path(tempfile.mkdtemp(prefix=prefix, suffix=_BUILD_SUFFIX, dir=final.parent))


def _sweep(folder: Path) -> None:
    """Remove what builds of processes of this host that are gone left behind.

    The folder may be shared with other hosts, whose processes cannot be seen from here.
    """
    for left in folder.glob(f".*{_BUILD_SUFFIX}"):
        *_, host, pid, _ = ("", "", *left.name.removesuffix(_BUILD_SUFFIX).split("."))
        if host == _host() and pid.isdigit() and not _is_alive(int(pid)):
            shutil.rmtree(left, ignore_errors=True)


def temporary_folder() -> Path:
    """Make a folder in the temporary folder, for this user alone, and sweep what others left there.

    Raises:
        OSError: it cannot be made.
    """
    top = Path(tempfile.gettempdir())
    prefix = f"tracekit-{_host()}-"
    for left in top.glob(f"{prefix}*"):
        pid = left.name.removeprefix(prefix).partition("-")[0]
        with contextlib.suppress(OSError):
            is_ours = left.lstat().st_uid == os.getuid() and not left.is_symlink()
            if is_ours and pid.isdigit() and not _is_alive(int(pid)):
                shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=top))


@functools.cache
def _host() -> str:
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


# -- opening ---------------------------------------------------------------------------------------


class DamagedStoreError(StoreError):
    """A store was whole once, and is not any more."""


Check = Callable[["duckdb.DuckDBPyConnection", Path], None]


def open_store(
    path: Path,
    resources: contextlib.ExitStack | None = None,
    *,
    unsafe: bool = False,
    check: Check | None = None,
) -> duckdb.DuckDBPyConnection:
    """Open a store for reading.

    A store is data, whoever made it: its limits are set, and its SQL can reach nothing, before
    anything in it is looked at.

    Args:
        path: the ``.duckdb`` file.
        resources: closed behind the connection; without it, what does not fit into memory fails.
        unsafe: let SQL reach files, the network and DuckDB's settings, once the store is known to
            be one.
        check: looks at what the store holds before any of it is used; raises what is wrong.

    Raises:
        StoreError: no such file, no store of tracekit's, or one of another schema version.
    """
    if not path.is_file():
        raise StoreError(f"{path}: no such store", hint="make one: tracekit ingest TRACE -o STORE")
    spill_folder = None
    if resources is not None:
        with _explained(Path(tempfile.gettempdir())):
            spill_folder = temporary_folder()
        resources.callback(shutil.rmtree, spill_folder, ignore_errors=True)
    connection = _opened(path, spill_folder, check)
    if unsafe:
        connection.close()
        connection = _attached(path, spill_folder, is_locked=False)
    connection.execute("USE store")
    return connection


def _opened(
    path: Path, spill_folder: Path | None, check: Check | None
) -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = _attached(path, spill_folder, is_locked=True)
    try:
        tables = connection.execute(
            "SELECT table_name FROM system.main.duckdb_tables() "
            "WHERE database_name = 'store' AND schema_name = 'main' AND NOT internal"
        ).fetchall()
        missing = {"store_info", "trace", "run"} - {name for (name,) in tables}
        if missing:
            raise StoreError(
                f"{path}: not a store that tracekit can open: it has no table {min(missing)}",
                hint="make a new one: tracekit ingest TRACE -o STORE",
            )
        row = connection.execute("SELECT schema_version FROM store.main.store_info").fetchone()
        if row is None or row[0] != SCHEMA_VERSION:
            found = "unknown" if row is None else row[0]
            raise StoreError(
                f"{path}: the store has schema version {found}, "
                f"this tracekit reads {SCHEMA_VERSION}",
                hint="make a new one from the trace: tracekit ingest TRACE -o STORE",
            )
        if check is not None:
            check(connection, path)
    except (duckdb.Error, UnicodeDecodeError) as error:
        connection.close()
        raise _not_opened(path, str(error)) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _attached(
    path: Path, spill_folder: Path | None, *, is_locked: bool
) -> duckdb.DuckDBPyConnection:
    """Return a connection on which a store is attached as ``store``, and nothing has been read."""
    import duckdb

    connection = duckdb.connect()
    name = path.resolve()
    try:
        _set_limits(connection, spill_folder)
        if path.stat().st_size <= SMALL_STORE_BYTES:
            connection.execute("SET threads = 1")
        with _passing_name(path) if is_locked else contextlib.nullcontext(name) as name:
            connection.execute(f"ATTACH {quote(str(name))} AS store (READ_ONLY)")
        if is_locked:
            lock(connection)
    except (duckdb.Error, OSError) as error:
        connection.close()
        raise _not_opened(path, str(error).replace(str(name), str(path))) from error
    return connection


def _not_opened(path: Path, text: str) -> StoreError:
    reason = text.splitlines()[0] if text else "no reason is given"
    if "Could not set lock" in reason:
        return StoreError(
            f"{path}: the store is in use: another process has it open for writing",
            hint="wait for that process, or close it",
        )
    return DamagedStoreError(
        f"{path}: not a store that tracekit can open: {reason}",
        hint="make a new one: tracekit ingest TRACE -o STORE",
    )


@contextlib.contextmanager
def _passing_name(path: Path) -> Iterator[Path]:
    """Give a store a second name that is soon gone.

    Without external access, DuckDB still lets SQL write to the names of attached files: COPY … TO
    'the store' would replace the store. A symbolic link does not do, DuckDB resolves it. Where
    there can be no second name (a folder that cannot be written, a disk without hard links) and
    the file could be written, a copy is opened.

    Raises:
        OSError: there is no room for the copy.
    """
    resolved = path.resolve()
    with contextlib.ExitStack() as folders:
        name = None
        with contextlib.suppress(OSError):
            folder = _building_folder(resolved)
            folders.callback(shutil.rmtree, folder, ignore_errors=True)
            (folder / path.name).hardlink_to(resolved)
            name = folder / path.name
        if name is None and not _is_writable(resolved):
            name = resolved
        if name is None:
            folder = temporary_folder()
            folders.callback(shutil.rmtree, folder, ignore_errors=True)
            name = folder / path.name
            shutil.copyfile(resolved, name)
        yield name


def _is_writable(file: Path) -> bool:
    """Whether this process may replace what a file says, or the file."""
    return os.access(file, os.W_OK) or os.access(file.parent, os.W_OK)


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Keep SQL on this connection from files, the network and DuckDB's settings."""
    connection.execute("SET enable_external_access = FALSE; SET lock_configuration = TRUE")


# -- the cache -------------------------------------------------------------------------------------


def cache_dir() -> Path:
    """Return the folder of cached stores: TRACEKIT_CACHE_DIR, else under the XDG cache folder."""
    given = os.environ.get("TRACEKIT_CACHE_DIR")
    if given:
        return Path(given).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME")
    base = Path(xdg) if xdg and Path(xdg).is_absolute() else Path.home() / ".cache"
    return base / "tracekit"


def ceilings_dir() -> Path:
    """Return the folder of what was measured on devices, which is no store and is kept apart."""
    return cache_dir() / "ceilings"


def cached_store_path(sources: Sequence[Path], digest: str) -> Path:
    """Return where the cached store of these files lies, or would lie.

    The name begins with a digest of the paths, so that a store of an older state of the same files
    can be found and removed, and goes on with a digest of path, size, inode, times and samples of
    the text of each, schema version and ``digest``.

    Args:
        sources: the trace files, in order.
        digest: of everything else that decides what the store holds (SQL files, rules).

    Raises:
        OSError: a file cannot be read.
    """
    names = hashlib.sha256()
    state = hashlib.sha256(f"{SCHEMA_VERSION} {digest}".encode())
    for source in sources:
        resolved = os.fsencode(source.resolve())
        names.update(resolved + b"\0")
        state.update(resolved + b"\0" + _state_of(source))
    return cache_dir() / f"{names.hexdigest()[:16]}-{state.hexdigest()[:24]}{STORE_SUFFIX}"


def _state_of(source: Path) -> bytes:
    """Return what changes when a file does: what the disk says of it, and samples of its text.

    A copy with its times kept may have the size and the times of what it replaces.
    """
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
    """Remove stores of older states of the same files, and the oldest ones of a full cache."""
    prefix = store.name.split("-", 1)[0]
    for other in store.parent.glob(f"{prefix}-*{STORE_SUFFIX}"):
        if other != store:
            forget(other)
    given = os.environ.get("TRACEKIT_CACHE_LIMIT_BYTES", "")
    limit_bytes = int(given) if given.isdigit() else CACHE_LIMIT_BYTES
    total_bytes = 0
    for file in sorted(_cache_files(store.parent), key=_modified_s, reverse=True):
        total_bytes += _size_bytes(file)
        if total_bytes > limit_bytes and file != store:
            forget(file)


def forget(store: Path) -> None:
    """Remove a cached store, if it can be removed."""
    with contextlib.suppress(OSError):
        store.unlink(missing_ok=True)


def is_private(folder: Path) -> bool:
    """Whether nobody but this user can have put there what lies in a folder."""
    try:
        status = folder.stat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def touch(store: Path) -> None:
    """Mark a cached store as used now."""
    with contextlib.suppress(OSError):
        os.utime(store)


def list_cached() -> list[CachedStore]:
    """Return the stores in the cache, the last used first."""
    import duckdb

    found = []
    for file in sorted(_cache_files(cache_dir()), key=_modified_s, reverse=True):
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
        found.append(CachedStore(file, source, _size_bytes(file), _modified_s(file)))
    return found


def clear_cache() -> int:
    """Remove all cached stores; return how many there were.

    Raises:
        StoreError: one cannot be removed.
    """
    folder = cache_dir()
    count = 0
    for file in _cache_files(folder):
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"{file}: cannot be removed: {error.strerror or error}",
                hint="may you write to its folder?",
            ) from error
        count += 1
    if folder.is_dir():
        _sweep(folder)
    return count


def _cache_files(folder: Path) -> list[Path]:
    return list(folder.glob(f"*{STORE_SUFFIX}")) if folder.is_dir() else []


def _modified_s(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _size_bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
