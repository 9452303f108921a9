"""Opens stores safely, because they are untrusted data."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.database.connections import (
    LIBRARY,
    DamagedStoreError,
    add_session,
    connect,
    lock,
    session_of,
)
from tracekit.errors import StoreError
from tracekit.schema import SCHEMA_VERSION
from tracekit.sql_text import quote
from tracekit.storage.temp_dirs import building_folder, temporary_folder
from tracekit.units import MB

if TYPE_CHECKING:
    import duckdb

SMALL_STORE_BYTES = 16 * MB
"""Queries of smaller stores use one thread, because a second one costs more than it saves."""


OF_TRACES = "kernel_rule"


Check = Callable[["duckdb.DuckDBPyConnection", Path], None]


def open_store(
    path: Path,
    resources: contextlib.ExitStack | None = None,
    *,
    library: Path | None = None,
    unsafe: bool = False,
    check: Check | None = None,
) -> duckdb.DuckDBPyConnection:
    """Open a store for reading.

    Stores are untrusted. Before anything is read, limits are set, and SQL loses access to files and
    the network. With `unsafe`, it regains access once the file is identified as a store. Without
    `library`, only the store itself is readable. Without `resources`, spilling is disabled.
    """
    if not path.is_file():
        raise StoreError(
            f"{path}: no such store", hint="create one: tracekit ingest TRACE -o STORE"
        )
    spill_folder = None
    if resources is not None:
        spill_folder = temporary_folder()
        resources.callback(shutil.rmtree, spill_folder, ignore_errors=True)
    connection, tables = _opened(path, library, spill_folder, check)
    if unsafe:
        connection.close()
        connection = _attached(path, library, spill_folder, is_locked=False)
    connection.execute("USE store")
    add_session(connection, "" if library is None else "store", is_complete=True)
    session_of(connection).row_counts.update(dict.fromkeys(tables))
    return connection


def _opened(
    path: Path, library: Path | None, spill_folder: Path | None, check: Check | None
) -> tuple[duckdb.DuckDBPyConnection, frozenset[str]]:
    import duckdb

    connection = _attached(path, library, spill_folder, is_locked=True)
    try:
        result = connection.execute(
            "SELECT table_name FROM system.main.duckdb_tables() "
            "WHERE database_name = 'store' AND schema_name = 'main' AND NOT internal"
        ).fetchall()
        tables = frozenset(name for (name,) in result)
        missing = {"store_info", "trace", "run"} - tables
        if missing:
            raise StoreError(
                f"{path}: not a tracekit store: it has no table {min(missing)}",
                hint="create it again: tracekit ingest TRACE -o STORE",
            )
        row = connection.execute("SELECT schema_version FROM store.main.store_info").fetchone()
        if row is None or row[0] != SCHEMA_VERSION:
            version = "unknown" if row is None else row[0]
            raise StoreError(
                f"{path}: the store has schema version {version}, but this tracekit reads "
                f"{SCHEMA_VERSION}",
                hint="create it again from the trace: tracekit ingest TRACE -o STORE",
            )
        if check is not None:
            check(connection, path)
    except (duckdb.Error, UnicodeDecodeError) as error:
        connection.close()
        raise _not_opened(path, str(error)) from error
    except BaseException:
        connection.close()
        raise
    return connection, tables


def _attached(
    path: Path, library: Path | None, spill_folder: Path | None, *, is_locked: bool
) -> duckdb.DuckDBPyConnection:
    """Return a connection with the store attached as ``store``; nothing has been read yet."""
    import duckdb

    connection = connect(spill_folder)
    name = path.resolve()
    try:
        if path.stat().st_size <= SMALL_STORE_BYTES:
            connection.execute("SET threads = 1")
        with _temporary_link(path) if is_locked else contextlib.nullcontext(name) as name:
            connection.execute(f"ATTACH {quote(str(name))} AS store (READ_ONLY)")
        if library is not None:
            attach_library(connection, library)
        if is_locked:
            lock(connection)
    except (duckdb.Error, OSError) as error:
        connection.close()
        raise _not_opened(path, str(error).replace(str(name), str(path))) from error
    return connection


def attach_library(connection: duckdb.DuckDBPyConnection, library: Path) -> None:
    """Attach the library of this tracekit version so that SQL cannot overwrite its file."""
    with _temporary_link(library) as name:
        connection.execute(f"ATTACH {quote(str(name))} AS {LIBRARY} (READ_ONLY)")


def _not_opened(path: Path, text: str) -> StoreError:
    reason = text.splitlines()[0] if text else "unknown reason"
    if "Could not set lock" in reason:
        return StoreError(
            f"{path}: the store is in use: another process has it open for writing",
            hint="close it there, or wait for that process",
        )
    # DuckDB's message for a truncated file.
    is_cut_off = "attempted to read" in reason or "read enough bytes" in reason
    return DamagedStoreError(
        f"{path}: the store is damaged or incomplete"
        if is_cut_off
        else f"{path}: not a tracekit store: {reason}",
        hint="create it again: tracekit ingest TRACE -o STORE",
    )


@contextlib.contextmanager
def _temporary_link(path: Path) -> Iterator[Path]:
    """Yield the name of a temporary hard link to a store.

    DuckDB always allows SQL to write to the paths of attached files: COPY … TO 'the store' would
    replace the store. A symbolic link does not help, because DuckDB resolves it. If a hard link is
    not possible (read-only folder, file system without hard links) and SQL could replace the file,
    the name is of a copy.
    """
    resolved = path.resolve()
    with contextlib.ExitStack() as folders:
        name = None
        with contextlib.suppress(OSError):
            folder = building_folder(resolved)
            folders.callback(shutil.rmtree, folder, ignore_errors=True)
            (folder / path.name).hardlink_to(resolved)
            name = folder / path.name
        if name is None and not any(os.access(one, os.W_OK) for one in (resolved, resolved.parent)):
            name = resolved
        if name is None:
            folder = temporary_folder()
            folders.callback(shutil.rmtree, folder, ignore_errors=True)
            name = folder / path.name
            shutil.copyfile(resolved, name)
        yield name


def attach_stores(
    stores: Mapping[str, Path], resources: contextlib.ExitStack
) -> duckdb.DuckDBPyConnection:
    """Attach stores for reading. The caller must have checked them.

    New tables are created in an in-memory database. SQL cannot access files or the network.
    """
    import duckdb

    spill_folder = temporary_folder()
    resources.callback(shutil.rmtree, spill_folder, ignore_errors=True)
    connection = connect(spill_folder)
    resources.callback(connection.close)
    with contextlib.ExitStack() as names:
        for name, path in stores.items():
            try:
                passing = names.enter_context(_temporary_link(path))
                connection.execute(f'ATTACH {quote(str(passing))} AS "{name}" (READ_ONLY)')
            except (duckdb.Error, OSError) as error:
                raise _not_opened(path, str(error)) from error
        lock(connection)
    return connection
