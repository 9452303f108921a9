"""How much memory a store may take while it is built or asked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.sql_text import quote
from tracekit.units import MB

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


def set_limits(connection: duckdb.DuckDBPyConnection, spill_folder: Path | None) -> None:
    """Bound the memory; what is too much goes to a folder, where there is one."""
    set_limit_of_questions(connection)
    connection.execute(f"SET temp_directory = {quote(str(spill_folder or ''))}")


def set_limit_of_questions(connection: duckdb.DuckDBPyConnection) -> None:
    """Give a store that was built here the memory that one has which was opened."""
    limit = os.environ.get("TRACEKIT_MEMORY_LIMIT", MEMORY_LIMITS[1])
    connection.execute(f"SET memory_limit = {quote(limit)}")


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
    set_first_limit(connection, text_bytes)
    with_more_room(connection, text_bytes, step)


def set_first_limit(connection: duckdb.DuckDBPyConnection, text_bytes: int) -> None:
    """Set the limit that is tried first; once for many steps: it costs a millisecond."""
    if "TRACEKIT_MEMORY_LIMIT" not in os.environ:
        connection.execute(f"SET memory_limit = {quote(_limits(text_bytes)[0])}")


def with_more_room(
    connection: duckdb.DuckDBPyConnection, text_bytes: int, step: Callable[[], None]
) -> None:
    """Do a step as :func:`with_room` does, under the limit that is set; leave the first one set.

    Raises:
        duckdb.OutOfMemoryException: as there.
    """
    from tracekit.database.engine import duckdb

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
            connection.execute(f"SET memory_limit = {quote(limit)}")
            try:
                step()
            except duckdb.OutOfMemoryException:
                if limit == higher[-1]:
                    raise
            else:
                return
    finally:
        connection.execute(f"SET memory_limit = {quote(first)}")


def _limits(text_bytes: int) -> tuple[str, ...]:
    return MEMORY_LIMITS[0 if text_bytes <= SMALL_SOURCE_BYTES else 1 :]
