"""Runs an analysis or a user's statement and returns its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from tracekit.analysis.interruptible import Deadline, interruptible
from tracekit.analysis.library import reads
from tracekit.analysis.params import bind
from tracekit.analysis.query_errors import sql_error, store_error
from tracekit.analysis.relations import (
    Answer,
    ensure,
    ensure_named,
    has_no_input,
    has_rows_of,
    with_values,
)
from tracekit.analysis.result import Column, Result, RowStream, columns_of
from tracekit.analysis.spec import Spec
from tracekit.database.connections import bounded, execute_own, session_of
from tracekit.errors import QueryError

if TYPE_CHECKING:
    from typing_extensions import CapsuleType


def declared_otherwise(spec: Spec, columns: Sequence[Column]) -> str | None:
    """Return how the columns of a result differ from the header, or None if they agree."""
    declared = [(column.name, column.type) for column in spec.columns]
    returned = [(column.name, column.type) for column in columns]
    if declared == returned:
        return None
    missing = [
        f"{name} {type_name}" for name, type_name in declared if (name, type_name) not in returned
    ]
    extra = [
        f"{name} {type_name}" for name, type_name in returned if (name, type_name) not in declared
    ]
    if not missing and not extra:
        return "the same columns in another order"
    return (
        f"declared but not returned: {', '.join(missing) or 'none'}; "
        f"returned but not declared: {', '.join(extra) or 'none'}"
    )


_WRITES_FILES = re.compile(r"\b(?:copy|export|attach|import|install|load)\b", re.IGNORECASE)


def check_writes(
    connection: duckdb.DuckDBPyConnection, statements: Sequence[duckdb.Statement]
) -> None:
    """Reject statements that write files if the connection can access the files of a dataset."""
    for statement in statements:
        if (
            statement.type != duckdb.StatementType.SELECT
            and _WRITES_FILES.search(statement.query)
            and _reads_files(connection)
        ):
            raise QueryError(
                "a dataset is read-only: statements cannot write files",
                hint="SELECT from it; --format csv, json or markdown writes a result to stdout",
            )


def _reads_files(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether a restricted connection may read the files of a dataset.

    DuckDB then also allows writing to them. Its spill folder, which is always accessible, is
    ignored here.
    """
    row = connection.execute(
        "SELECT NOT current_setting('enable_external_access')::BOOLEAN "
        "AND len(current_setting('allowed_directories')) "
        "> (current_setting('temp_directory') <> '')::INTEGER"
    ).fetchone()
    return bool(row and row[0])


T = TypeVar("T")

_ROWS_AT_ONCE = 1_000

# DuckDB types that are returned as text, which is exact. The Python types lose precision (datetime
# has no nanoseconds, timedelta no months) or need a package that may be missing (pytz).
_AS_TEXT = re.compile(r"WITH TIME ZONE|TIMESTAMP_NS|TIME_NS|INTERVAL")


def run_analysis(
    connection: duckdb.DuckDBPyConnection, spec: Spec, params: Mapping[str, object]
) -> Result:
    """Run an analysis on a store. Missing parameters have the defaults of its header.

    Stored rows are used if they exist.
    """
    statement = with_values(spec, bind(spec, params))
    try:
        columns, rows = interruptible(
            connection, lambda: _answer(connection, spec, statement, has_defaults=not params)
        )
    except (duckdb.Error, UnicodeDecodeError) as error:
        blamed = store_error(spec.name, error)
        if blamed is None:
            raise
        raise blamed from error
    return Result(spec.name, columns, rows)


def run_sql(connection: duckdb.DuckDBPyConnection, text: str) -> Result:
    """Run a user's statement.

    Of several statements, only the last may return rows, so that no result is silently dropped.
    Nanosecond timestamps, timestamps with time zone, and intervals are returned as DuckDB's exact
    text.
    """
    try:
        columns, rows = interruptible(connection, lambda: _run_text(connection, text))
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise sql_error(connection, error) from error
    return Result("sql", columns, rows)


def stream_sql(
    connection: duckdb.DuckDBPyConnection, text: str, *, timeout_s: float | None = None
) -> RowStream:
    """Run a user's statement like :func:`run_sql`, and return a stream of rows.

    Do not use the connection before the last row has been read. `timeout_s` includes that time.
    """
    clock = Deadline(connection, timeout_s)

    def ask(work: Callable[[], T]) -> T:
        try:
            with clock:
                return interruptible(connection, work)
        except (duckdb.Error, UnicodeDecodeError) as error:
            if clock.is_over:
                raise too_late() from error
            raise sql_error(connection, error) from error

    def too_late() -> QueryError:
        return QueryError(f"the statement took longer than {timeout_s:g} s", hint="raise --timeout")

    columns, take = ask(lambda: _open_text(connection, text))

    def rows() -> Iterator[tuple[Any, ...]]:
        while part := ask(lambda: take(_ROWS_AT_ONCE)):
            yield from part
            if clock.is_over:
                connection.abort()
                raise too_late()

    return RowStream("sql", columns, rows())


def _open_text(
    connection: duckdb.DuckDBPyConnection, text: str
) -> tuple[tuple[Column, ...], Callable[[int], list[tuple[Any, ...]]]]:
    """Run statements; return the columns of the last, and a function that fetches rows."""
    with _left_clean(connection):
        ensure_named(connection, text)
        *before, last = _statements(connection, text)
        for statement in before:
            connection.execute(statement)
            connection.complete()
        connection.execute(last)
        columns = columns_of(connection)
        if any(_AS_TEXT.search(column.type) for column in columns):
            # Python types would lose precision, so these columns are cast to text.
            connection.execute(_exact_relation(connection, last, columns).sql_query())
        return columns, connection.fetchmany


def _answer(
    connection: duckdb.DuckDBPyConnection, spec: Spec, statement: str, *, has_defaults: bool
) -> Answer:
    with _left_clean(connection):
        is_made = has_defaults and has_rows_of(connection, spec.name)
        ensure(connection, [spec.name] if is_made else reads(spec.name))
        is_empty = is_made and session_of(connection).row_counts.get(spec.name) == 0
        if is_empty or (not is_made and has_no_input(connection, spec)):
            columns = tuple(Column(column.name, column.type) for column in spec.columns)
            return Answer(columns, [])
        if is_made:
            connection.execute(f"FROM {spec.name}")
        else:
            execute_own(connection, statement)
        columns = columns_of(connection)
        check_declared(spec, columns)
        with bounded(connection):
            return Answer(columns, connection.fetchall())


def _run_text(connection: duckdb.DuckDBPyConnection, text: str) -> Answer:
    with _left_clean(connection):
        columns, _ = _open_text(connection, text)
        return Answer(columns, connection.fetchall())


def _statements(connection: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise QueryError("the statement contains bytes that are not UTF-8") from error
    statements = connection.extract_statements(text)
    if not statements:
        raise QueryError(
            "no SQL statement to run", hint='for example: tracekit sql TRACE "SHOW TABLES"'
        )
    check_writes(connection, statements)
    for statement in statements[:-1]:
        if statement.type == duckdb.StatementType.SELECT:
            raise QueryError(
                "only the last of several statements may return rows",
                hint="run the SELECT statements one at a time",
            )
    return [statement.query for statement in statements]


def _exact_relation(
    connection: duckdb.DuckDBPyConnection, statement: str, columns: Sequence[Column]
) -> duckdb.DuckDBPyRelation:
    connection.abort()
    picked = ", ".join(
        f"CAST(#{position} AS VARCHAR)" if _AS_TEXT.search(column.type) else f"#{position}"
        for position, column in enumerate(columns, start=1)
    )
    return connection.sql(statement).project(picked)


def check_declared(spec: Spec, columns: Sequence[Column]) -> None:
    """Raise RuntimeError if columns differ from the header, which is a bug in the SQL file."""
    different = declared_otherwise(spec, columns)
    if different is not None:
        raise RuntimeError(f"{spec.path}: the columns differ from the header ({different})")


@contextmanager
def _left_clean(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Close the open result after an error, because it would block the connection."""
    try:
        yield
    except BaseException:
        connection.abort()
        raise


class ArrowRows:
    """Rows as an Arrow stream, computed while they are read.

    Read or close the stream before the next query.
    """

    def __init__(self, capsule: CapsuleType) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> CapsuleType:
        """Return the stream through the Arrow PyCapsule interface; it can be read once."""
        del requested_schema
        return self._capsule


def stream_arrow(connection: duckdb.DuckDBPyConnection, text: str) -> ArrowRows:
    """Run one statement and return its rows. Do not use the connection until all are read."""

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
