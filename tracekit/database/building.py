"""Atomic creation of stores.

A store is built in a separate folder next to its final path, and moved there when it is complete.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tracekit.database.connections import (
    SCRATCH,
    add_session,
    connect,
    create_tables,
    explained,
)
from tracekit.database.opening import attach_library
from tracekit.errors import StoreError
from tracekit.sql_text import quote
from tracekit.storage import Place
from tracekit.storage.temp_dirs import building_folder, sweep, temporary_folder

if TYPE_CHECKING:
    import duckdb

CHECKPOINT_THRESHOLD = "64MB"
"""Amount of data per checkpoint. Smaller values cost time; larger values cost memory."""


class Build(Struct, frozen=True):
    """A store that is being built: an open connection and a folder for temporary files."""

    connection: duckdb.DuckDBPyConnection
    folder: Path


@contextlib.contextmanager
def build_store(
    final: Path,
    sources: Sequence[Place] = (),
    *,
    library: Path,
    replaces: bool = True,
) -> Iterator[Build]:
    """Build a store and move it to its final path when the block ends without an error.

    Only users who may read all sources may read the store. An existing file is overwritten only if
    `replaces`.
    """
    with explained(final):
        final.parent.mkdir(parents=True, exist_ok=True)
        sweep(final.parent)
        folder = building_folder(final)
    try:
        with explained(final):
            partial = folder / "store.duckdb"
            connection = _connect(partial, folder, library)
            try:
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


def _mode_of(sources: Sequence[Place]) -> int:
    """Return the permissions of a store: those that the umask and all source files allow.

    If a source is a URL or a removed file, only this user may read the store.
    """
    mask = os.umask(0o077)
    os.umask(mask)
    mode = 0o644 & ~mask
    for source in sources:
        allowed = 0
        if isinstance(source, Path):
            with contextlib.suppress(FileNotFoundError):
                allowed = source.stat().st_mode
        mode &= allowed | 0o200
    return mode | 0o600


def _move_if_free(partial: Path, final: Path) -> None:
    exists_error = StoreError(f"{final}: already exists", hint="use --force to replace it")
    try:
        final.hardlink_to(partial)
    except FileExistsError as error:
        raise exists_error from error
    except OSError:
        # The file system lacks hard links.
        if os.path.lexists(final):
            raise exists_error from None
        partial.rename(final)


@contextlib.contextmanager
def build_temporary(library: Path) -> Iterator[Build]:
    folder = temporary_folder()
    try:
        with explained(folder):
            connection = _connect(None, folder, library)
            try:
                yield Build(connection, folder)
            finally:
                connection.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _connect(path: Path | None, folder: Path, library: Path) -> duckdb.DuckDBPyConnection:
    connection = connect(folder / "spill")
    connection.execute(f"ATTACH ':memory:' AS {SCRATCH}")
    if path is not None:
        # An incomplete store is discarded, so it needs no write-ahead log.
        connection.execute(
            f"ATTACH {quote(str(path))} AS store (RECOVERY_MODE NO_WAL_WRITES); USE store; "
            f"SET checkpoint_threshold = {quote(CHECKPOINT_THRESHOLD)}"
        )
    database = "memory" if path is None else "store"
    create_tables(connection, library, database)
    attach_library(connection, library)
    add_session(connection, database)
    return connection
