"""Keeps the user's SQL from writing where it may read: among the files of a dataset."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracekit.database.engine import duckdb
from tracekit.errors import QueryError

_WRITES_FILES = re.compile(r"\b(?:copy|export|attach|import|install|load)\b", re.IGNORECASE)


def check_writes(
    connection: duckdb.DuckDBPyConnection, statements: Sequence[duckdb.Statement]
) -> None:
    """Make sure that no statement writes a file, on a connection that reads those of a dataset.

    Args:
        connection: to a store or a dataset.
        statements: what shall be run on it.

    Raises:
        QueryError: one of them could.
    """
    for statement in statements:
        if (
            statement.type != duckdb.StatementType.SELECT
            and _WRITES_FILES.search(statement.query)
            and _reads_files(connection)
        ):
            raise QueryError(
                "a dataset is opened read-only: no statement may write files",
                hint="SELECT from it; --format csv, json or markdown writes a result to stdout",
            )


def _reads_files(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether a connection that is kept from files may read some: those of a dataset.

    DuckDB lets it write there too. It allows the folder for what spills by itself.
    """
    found = connection.execute(
        "SELECT NOT current_setting('enable_external_access')::BOOLEAN "
        "AND len(current_setting('allowed_directories')) "
        "> (current_setting('temp_directory') <> '')::INTEGER"
    ).fetchone()
    return bool(found and found[0])
