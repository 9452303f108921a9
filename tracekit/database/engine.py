"""DuckDB as far as tracekit needs it: the engine, without the Python around it.

The package ``duckdb`` lays a builder of queries around its compiled module. Loading that builder
takes 0.1 s, the fifth part of a breakdown from the cache, and nothing here builds queries. So the
compiled module is loaded alone; its classes are those of the package, which anyone may still
import, before or after.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb
    from typing_extensions import CapsuleType
else:
    try:
        import _duckdb as duckdb
    except ImportError:
        import duckdb

__all__ = ["arrow_stream", "duckdb", "register_stream", "whole"]

_KNOWN_VERSIONS = frozenset({"2.0.0"})
"""Versions of DuckDB whose compiled module is known to take what :class:`_Stream` gives, and to
give what :func:`arrow_stream` asks for."""


def whole() -> None:
    """Load the rest of the package: a connection that somebody else gets has all its methods."""
    import duckdb  # noqa: F401


def register_stream(connection: duckdb.DuckDBPyConnection, name: str, stream: CapsuleType) -> None:
    """Let a statement on a connection read an Arrow stream, once and whole, as a table.

    Args:
        connection: the statement's.
        name: what the statement calls it.
        stream: a capsule of the Arrow C stream interface.
    """
    if "duckdb" in sys.modules or duckdb.__version__ not in _KNOWN_VERSIONS:
        whole()
    else:
        duckdb._set_arrow_sources(_Sources)  # type: ignore[attr-defined]
    connection.register(name, stream)


def arrow_stream(connection: duckdb.DuckDBPyConnection, text: str, row_count: int) -> CapsuleType:
    """Return the rows of a statement as an Arrow stream, which holds the connection.

    Args:
        connection: the statement's.
        text: a statement that returns rows.
        row_count: so many rows at a time, where that can be told.
    """
    stream: CapsuleType
    if duckdb.__version__ in _KNOWN_VERSIONS:
        stream = connection._submit(text, None, "stream", row_count).arrow_capsule()
    else:
        whole()
        stream = connection.sql(text).__arrow_c_stream__()
    return stream


class _Stream:
    """A stream as the compiled module asks for it, as the package's own class for it does."""

    one_shot = True
    schema_is_stable = True
    pull_under_gil = False

    def __init__(self, stream: CapsuleType) -> None:
        self._stream = stream

    def rows(self) -> None:
        """How many rows there are: not known."""

    def accepts(self, predicate: object) -> bool:
        """Whether it would leave out rows itself."""
        del predicate
        return False

    def stream(
        self, columns: Sequence[int] | None, filters: Sequence[object]
    ) -> tuple[CapsuleType, bool]:
        """Return the stream, and that it holds all columns."""
        del columns, filters
        return self._stream, False


class _Sources:
    """What the compiled module asks for what it reads from Python; the package's is a module."""

    adapt = _Stream
    # What filters, and what hands results on, would be made of.
    nodes = to_arrow = to_polars = None
