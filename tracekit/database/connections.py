"""Connections to a store: tables, resource limits, access restrictions, and disk errors."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from tracekit.errors import StoreError
from tracekit.sql_text import quote
from tracekit.units import MB

if TYPE_CHECKING:
    import duckdb


class DamagedStoreError(StoreError):
    """A store was complete once, but is damaged now."""

    def of(self, path: Path | None) -> DamagedStoreError:
        if path is not None and str(path) not in self.message:
            self.message = f"{path}: {self.message}"
            self.args = (self.message,)
        return self


@contextlib.contextmanager
def explained(final: Path) -> Iterator[None]:
    """Convert disk errors to a StoreError with a one-sentence message."""
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
    """Return the temporary folder or the file, whichever disk has less free space."""
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
"""Memory limits of DuckDB's buffers, beyond which data is spilled to disk.

The first limit is enough for traces of a few tens of MB, the second for all tested sizes. A step
that runs out of memory is retried with the next limit. TRACEKIT_MEMORY_LIMIT sets a fixed limit
instead.
"""

_QUERY_LIMIT = "512MB"
"""Memory limit of queries, whose connection is locked, so that they cannot be retried with a higher
one. The critical path of a trace of 1 GB needs more than 256 MB."""

SMALL_SOURCE_BYTES = 100 * MB
"""Maximum size of the JSON text for which the first limit is tried."""


def connect(spill_folder: Path | None = None) -> duckdb.DuckDBPyConnection:
    """Connect to an in-memory database with a memory limit.

    The nested-loop ASOF join is disabled: DuckDB often chooses it because it underestimates the
    rows on the left. 8,000 segments in one gap took 3.7 s instead of 0.2 s. Without a spill folder,
    a statement that exceeds the memory limit fails.
    """
    import duckdb

    return duckdb.connect(
        config={
            "memory_limit": _query_limit(),
            "asof_loop_join_threshold": 0,
            "temp_directory": str(spill_folder or ""),
        }
    )


def _query_limit() -> str:
    return os.environ.get("TRACEKIT_MEMORY_LIMIT", _QUERY_LIMIT)


def set_query_limit(connection: duckdb.DuckDBPyConnection) -> None:
    _set_limit(connection, _query_limit())


def _set_limit(connection: duckdb.DuckDBPyConnection, limit: str) -> None:
    """Set the memory limit if it differs from the current one, because setting it takes 1 ms."""
    session = session_of(connection)
    if session.memory_limit != limit:
        connection.execute(f"SET memory_limit = {quote(limit)}")
        session.memory_limit = limit


def with_memory_limit(
    connection: duckdb.DuckDBPyConnection, text_bytes: int, step: Callable[[], None]
) -> None:
    """Run a build step with the smallest memory limit that is enough."""
    set_first_limit(connection, text_bytes)
    with_higher_limit(connection, text_bytes, step)


def set_first_limit(connection: duckdb.DuckDBPyConnection, text_bytes: int) -> None:
    if "TRACEKIT_MEMORY_LIMIT" not in os.environ:
        _set_limit(connection, _limits(text_bytes)[0])


def with_higher_limit(
    connection: duckdb.DuckDBPyConnection, text_bytes: int, step: Callable[[], None]
) -> None:
    """Run a step with the current memory limit, then with higher ones; reset the limit."""
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

SESSION = "session"
"""Name of the in-memory database of every connection; see :func:`add_session`."""

SPILL_LIMIT = "TRACEKIT_SPILL_LIMIT"
"""Environment variable that limits the disk space for spilled data."""

LIBRARY = "library"
"""Name of the read-only database with macros and rules, attached to every connection."""


class Session(Struct):
    """State that all connections to an open store share.

    `row_counts` maps existing relations to their row count, None if unknown. `provided` maps
    relations to statements that read them from the files of a dataset. `limit_s` limits the time of
    tracekit's statements on untrusted rows; None for trusted rows. `lock` is held while relations
    are created.
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
    """Return the session of a connection; by default, add one for a complete store."""
    if connection not in _sessions:
        add_session(connection, is_complete=True)
    return _sessions[connection]


def cursor_of(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return a second connection to the same store, for another thread."""
    session = session_of(connection)
    cursor = connection.cursor()
    # A cursor does not inherit the search path.
    cursor.execute(f"SET search_path = {quote(session.search_path)}")
    _sessions[cursor] = session
    return cursor


def add_session(
    connection: duckdb.DuckDBPyConnection, database: str = "", *, is_complete: bool = False
) -> None:
    """Attach the in-memory session database for relations that are created on demand.

    Names are looked up in the store, then in the session database, then in the attached library.
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
    session = session_of(connection)
    place = f"{SESSION}.main"
    if not session.search_path.startswith(place):
        session.search_path = f"{place},{session.search_path}"
        connection.execute(f"SET search_path = {quote(session.search_path)}")


_UNBOUNDED = contextlib.nullcontext()
_parsed: dict[str, list[duckdb.Statement]] = {}
_MAX_PARSED = 500


def execute_own(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Run tracekit's own statements, which are parsed once per process.

    Parsing takes a fifth of the time of opening a small trace.
    """
    statements = _parsed.get(text)
    if statements is None:
        statements = connection.extract_statements(text)
        if len(_parsed) < _MAX_PARSED:
            _parsed[text] = statements
    for statement in statements:
        with bounded(connection):
            connection.execute(statement)


def bounded(connection: duckdb.DuckDBPyConnection) -> contextlib.AbstractContextManager[None]:
    """Return a context manager that interrupts tracekit's statements at the time limit."""
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
_WITH_ROWS = ("fusion_rule", "kernel_rule", "range_rule", "role_rule", "unrecorded_mark")


def create_tables(
    connection: duckdb.DuckDBPyConnection, library: Path, database: str = "memory"
) -> None:
    """Create the tables, views, and functions of a store; only the rule tables have rows."""
    # Copying the empty tables, too, would take four times as long.
    copied = "; ".join(f"INSERT INTO {database}.{x} FROM empty_store.{x}" for x in _WITH_ROWS)
    connection.execute(
        f"ATTACH {quote(str(library.with_name(EMPTY_STORE)))} AS empty_store (READ_ONLY); "
        f"COPY FROM DATABASE empty_store TO {database} (SCHEMA); {copied}; DETACH empty_store"
    )


def lock(connection: duckdb.DuckDBPyConnection, allowed_folder: str | None = None) -> None:
    """Block SQL from accessing files, the network, and DuckDB's settings; limit disk usage."""
    limit = os.environ.get(SPILL_LIMIT, "16GB")
    allowed = f"SET allowed_directories = [{quote(allowed_folder)}];" if allowed_folder else ""
    connection.execute(
        f"SET max_temp_directory_size = {quote(limit)}; {allowed} "
        "SET enable_external_access = FALSE; SET lock_configuration = TRUE"
    )
