"""Connections to a store: their tables and limits, their lock, and what the disk answers."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from tracekit.errors import StoreError
from tracekit.sql_text import quote
from tracekit.units import MB

if TYPE_CHECKING:
    import duckdb


class DamagedStoreError(StoreError):
    """A store was whole once, and is not any more."""

    def of(self, path: Path | None) -> DamagedStoreError:
        """Return this error, its message naming the store; None: it is only in memory."""
        if path is not None and str(path) not in self.message:
            self.message = f"{path}: {self.message}"
            self.args = (self.message,)
        return self


@contextlib.contextmanager
def explained(final: Path) -> Iterator[None]:
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


def _fuller(final: Path) -> Path:
    """Return the file, or the temporary folder where that lies on a disk with less room."""
    temporary = Path(tempfile.gettempdir())
    try:
        room = [shutil.disk_usage(folder).free for folder in (final.parent, temporary)]
    except OSError:
        return final
    return temporary if room[1] < room[0] else final


def _disk_error(final: Path, number: int | None, text: str) -> StoreError:
    if number == errno.ENOSPC:
        return StoreError(
            f"{_fuller(final)}: the disk is full; nothing was written",
            hint="free space, or set TRACEKIT_CACHE_DIR, TMPDIR, or -o to a folder on another disk",
        )
    return StoreError(
        f"{final}: the store cannot be written: {text}",
        hint="set TRACEKIT_CACHE_DIR or -o to a writable folder, or use --no-cache",
    )


MEMORY_LIMITS = ("112MB", "256MB", "512MB", "1GB", "2GB")
"""What DuckDB's buffers may hold before they spill to disk.

The first is enough for a trace of some tens of MB, the second for any size so far. The others are
there for the day that they are not: a step that does not fit is tried again with the next one.
TRACEKIT_MEMORY_LIMIT fixes the limit instead.
"""

SMALL_SOURCE_BYTES = 100 * MB
"""Up to this much JSON text the first limit is tried first."""


def connect(spill_folder: Path | None = None) -> duckdb.DuckDBPyConnection:
    """Connect to a database in memory whose statements have bounded memory and time.

    Where DuckDB expects few rows on the left of an ASOF join, it compares each with all on the
    right. It often expects too few: 8,000 stretches in one gap took 3.7 s in place of 0.2.

    Args:
        spill_folder: where rows go that are too many for memory; None for nowhere.
    """
    import duckdb

    return duckdb.connect(
        config={
            "memory_limit": _limit_of_questions(),
            "asof_loop_join_threshold": 0,
            "temp_directory": str(spill_folder or ""),
        }
    )


def _limit_of_questions() -> str:
    return os.environ.get("TRACEKIT_MEMORY_LIMIT", MEMORY_LIMITS[1])


def set_limit_of_questions(connection: duckdb.DuckDBPyConnection) -> None:
    """Give a store that was built here the memory that one has which was opened."""
    _set_limit(connection, _limit_of_questions())


def _set_limit(connection: duckdb.DuckDBPyConnection, limit: str) -> None:
    """Set the memory limit of the store, which costs a millisecond."""
    session = session_of(connection)
    if session.memory_limit != limit:
        connection.execute(f"SET memory_limit = {quote(limit)}")
        session.memory_limit = limit


def with_room(
    connection: duckdb.DuckDBPyConnection, text_bytes: int, step: Callable[[], None]
) -> None:
    """Do a step of building a store in as little memory as it takes.

    Raises:
        duckdb.OutOfMemoryException: the last limit, or that of TRACEKIT_MEMORY_LIMIT, is too low.
    """
    set_first_limit(connection, text_bytes)
    with_more_room(connection, text_bytes, step)


def set_first_limit(connection: duckdb.DuckDBPyConnection, text_bytes: int) -> None:
    """Set the limit that is tried first."""
    if "TRACEKIT_MEMORY_LIMIT" not in os.environ:
        _set_limit(connection, _limits(text_bytes)[0])


def with_more_room(
    connection: duckdb.DuckDBPyConnection, text_bytes: int, step: Callable[[], None]
) -> None:
    """Do a step as :func:`with_room` does, under the limit that is set; leave the first one set.

    Raises:
        duckdb.OutOfMemoryException: as there.
    """
    import duckdb

    try:
        step()
    except duckdb.OutOfMemoryException:
        if "TRACEKIT_MEMORY_LIMIT" in os.environ:
            raise
    else:
        return
    first, *higher = _limits(text_bytes)
    try:
        for limit in higher:
            _set_limit(connection, limit)
            try:
                step()
            except duckdb.OutOfMemoryException:
                if limit == higher[-1]:
                    raise
            else:
                return
    finally:
        _set_limit(connection, first)


def _limits(text_bytes: int) -> tuple[str, ...]:
    return MEMORY_LIMITS[0 if text_bytes <= SMALL_SOURCE_BYTES else 1 :]


SCRATCH = "scratch"
"""The database in memory that a build has besides the store."""

SESSION = "session"
"""The database in memory that every connection has: see :func:`add_session`."""

SPILL_LIMIT = "TRACEKIT_SPILL_LIMIT"
"""The environment variable with the most that a statement may put on the disk."""

LIBRARY = "library"
"""The read-only database with macros and rules that every connection attaches."""


@dataclass
class Session:
    """What exists in an open store and its session; all connections to the store share it.

    Attributes:
        search_path: where names are looked up.
        row_counts: number of rows of each relation that exists, by name; None where unknown.
        provided: the statement that reads a relation from the files of a dataset, by name.
        is_complete: the store has every table and view of a store.
        limit_s: how long a statement of tracekit's may take; None where the rows are its own.
        memory_limit: what DuckDB's buffers may hold now; empty where nobody has changed it.
        lock: held while relations are created.
    """

    search_path: str
    row_counts: dict[str, int | None] = field(default_factory=dict)
    provided: dict[str, str] = field(default_factory=dict)
    is_complete: bool = False
    limit_s: float | None = None
    memory_limit: str = ""
    lock: RLock = field(default_factory=RLock)


_sessions: WeakKeyDictionary[duckdb.DuckDBPyConnection, Session] = WeakKeyDictionary()


def session_of(connection: duckdb.DuckDBPyConnection) -> Session:
    """Return the session of a connection; one that nothing has prepared has all of its tables."""
    if connection not in _sessions:
        add_session(connection, is_complete=True)
    return _sessions[connection]


def cursor_of(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return a second connection to the same store, for another thread."""
    session = session_of(connection)
    cursor = connection.cursor()
    # A cursor begins in the database that its connection was opened with.
    cursor.execute(f"SET search_path = {quote(session.search_path)}")
    _sessions[cursor] = session
    return cursor


def add_session(
    connection: duckdb.DuckDBPyConnection, database: str = "", *, is_complete: bool = False
) -> None:
    """Attach the database in memory for relations that are created on demand.

    Names are looked up in the store first, then in the session, then in the library where that is
    attached.

    Args:
        connection: the connection.
        database: that of the store, if the library is attached; the current one unless given.
        is_complete: it has every table and view of a store.
    """
    has_library = True
    if not database:
        [(database, has_library)] = connection.execute(
            f"SELECT current_database(), bool_or(database_name = '{LIBRARY}') "
            "FROM duckdb_databases()"
        ).fetchall()
    quoted = '"' + database.replace('"', '""') + '"'
    path = f"{quoted}.main,{SESSION}.main" + (f",{LIBRARY}.main" if has_library else "")
    connection.execute(
        f"ATTACH IF NOT EXISTS ':memory:' AS {SESSION}; SET search_path = {quote(path)}"
    )
    _sessions[connection] = Session(path, is_complete=is_complete)


def look_in_session_first(connection: duckdb.DuckDBPyConnection) -> None:
    """Look names up among what is created on demand before the store."""
    session = session_of(connection)
    place = f"{SESSION}.main"
    if not session.search_path.startswith(place):
        session.search_path = f"{place},{session.search_path}"
        connection.execute(f"SET search_path = {quote(session.search_path)}")


_UNBOUNDED = contextlib.nullcontext()
_parsed: dict[str, list[duckdb.Statement]] = {}
_MOST_PARSED = 500


def execute_own(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Run statements of tracekit's own, which are parsed once in a process.

    That is a fifth of what opening a small trace takes, and they are the same for the next one.
    """
    statements = _parsed.get(text)
    if statements is None:
        statements = connection.extract_statements(text)
        if len(_parsed) < _MOST_PARSED:
            _parsed[text] = statements
    for statement in statements:
        with bounded(connection):
            connection.execute(statement)


def bounded(connection: duckdb.DuckDBPyConnection) -> contextlib.AbstractContextManager[None]:
    """Stop a statement of tracekit's own that rows of somebody else's do not let end.

    Raises:
        DamagedStoreError: it took longer than `limit_s` of the session.
    """
    limit_s = session_of(connection).limit_s
    return _UNBOUNDED if limit_s is None else _limited(connection, limit_s)


@contextlib.contextmanager
def _limited(connection: duckdb.DuckDBPyConnection, limit_s: float) -> Iterator[None]:
    import duckdb

    timer, began_s = threading.Timer(limit_s, connection.interrupt), time.monotonic()
    timer.daemon = True
    timer.start()
    try:
        yield
    except duckdb.InterruptException as error:
        if time.monotonic() - began_s < limit_s:  # Ctrl-C
            raise
        raise DamagedStoreError(
            f"a statement on the rows of the store takes longer than {limit_s:.0f} s",
            hint="create it again from the trace: tracekit ingest TRACE -o STORE",
        ) from error
    finally:
        timer.cancel()


EMPTY_STORE = "empty_store.duckdb"
"""The file beside the library that every new store is a copy of."""


def create_tables(
    connection: duckdb.DuckDBPyConnection, library: Path, database: str = "memory"
) -> None:
    """Create the tables, views, and functions of a store; only the tables of rules have rows."""
    connection.execute(
        f"ATTACH {quote(str(library.with_name(EMPTY_STORE)))} AS empty_store (READ_ONLY); "
        f"COPY FROM DATABASE empty_store TO {database}; DETACH empty_store"
    )


def lock(connection: duckdb.DuckDBPyConnection, allowed_folder: str | None = None) -> None:
    """Keep SQL on this connection from files, the network, DuckDB's settings, and most of the disk.

    Args:
        connection: the connection.
        allowed_folder: a folder whose files it may read all the same.
    """
    limit = os.environ.get(SPILL_LIMIT, "16GB")
    allowed = f"SET allowed_directories = [{quote(allowed_folder)}];" if allowed_folder else ""
    connection.execute(
        f"SET max_temp_directory_size = {quote(limit)}; {allowed} "
        "SET enable_external_access = FALSE; SET lock_configuration = TRUE"
    )
