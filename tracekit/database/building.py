"""Building a store: whoever looks at its name sees the old one, or the new one, or none.

It is built in a folder of its own beside its final name and moved there when it is complete.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
"""How much may be loaded before it is compressed and written: often costs time, seldom memory."""


@dataclass(frozen=True, slots=True)
class Build:
    """A store in the making: an open connection and a folder for temporary files.

    Besides the store, the connection has a database ``scratch`` in memory.
    """

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
    """Build a store and move it to its final name when the block ends without an error.

    Nobody may read it who may not read all of its sources. Unless it `replaces` what lies there, a
    file that has come meanwhile is kept.

    Raises:
        StoreError: the folder cannot be written, the disk is full, or there is a file that is kept.
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
    """Return the permissions of a store: what the user's mask and every source of it allow.

    Who may read what lies behind a URL, or has gone since it was read, is not known: it stays with
    this user.
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
    """Move a file to a name that nothing may have taken.

    Raises:
        StoreError: something has.
    """
    taken = StoreError(f"{final}: already exists", hint="use --force to replace it")
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
def build_temporary(library: Path) -> Iterator[Build]:
    """Build a store that is never seen under a name and goes with its connection.

    Raises:
        StoreError: the temporary folder cannot be written, or the disk is full.
    """
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
        # What is built here is thrown away unless it is complete: a log of it would be waste.
        connection.execute(
            f"ATTACH {quote(str(path))} AS store (RECOVERY_MODE NO_WAL_WRITES); USE store; "
            f"SET checkpoint_threshold = {quote(CHECKPOINT_THRESHOLD)}"
        )
    database = "memory" if path is None else "store"
    create_tables(connection, library, database)
    attach_library(connection, library)
    add_session(connection, database)
    return connection
