"""Rows of a statement as an Arrow stream: columns, without an object for each value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from tracekit.analysis.interruptible import interruptible
from tracekit.analysis.query_errors import sql_error
from tracekit.analysis.relations import ensure_named

if TYPE_CHECKING:
    from typing_extensions import CapsuleType


class ArrowRows:
    """Rows that are made while they are taken, for whatever reads Arrow streams.

    Until the stream has been read or given up, nothing else may be asked.
    """

    def __init__(self, capsule: CapsuleType) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> CapsuleType:
        """Return the stream, as the Arrow PyCapsule interface has it; it can be read once."""
        del requested_schema
        return self._capsule


def stream_arrow(connection: duckdb.DuckDBPyConnection, text: str) -> ArrowRows:
    """Run one statement that returns rows; nothing else uses the connection until the end.

    Raises:
        QueryError: DuckDB refuses the statement.
        StoreError: the store is damaged.
    """

    def ask() -> CapsuleType:
        try:
            ensure_named(connection, text)
            stream: CapsuleType = connection.sql(text).__arrow_c_stream__()
            return stream
        except BaseException:
            # An open result would block the connection.
            connection.abort()
            raise

    try:
        return ArrowRows(interruptible(connection, ask))
    except duckdb.Error as error:
        raise sql_error(connection, error) from error
