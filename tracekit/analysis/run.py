"""Run an analysis or a statement of the user's and return its rows."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.dataset_writes import check_writes
from tracekit.analysis.deadline import Deadline
from tracekit.analysis.interruptible import interruptible
from tracekit.analysis.macros import provide_macros, provide_macros_in
from tracekit.analysis.params import bind
from tracekit.analysis.query_errors import sql_error, store_error
from tracekit.analysis.reductions import (
    Inputs,
    check_reduced,
    columns_read,
    is_of_nothing,
    passed_on,
    rows_laid,
)
from tracekit.analysis.result import Column, Result, RowStream
from tracekit.analysis.session_tables import provide_tables
from tracekit.analysis.spec import Reduced, Spec
from tracekit.analysis.statement import declared_otherwise, with_values
from tracekit.database import execute
from tracekit.database.engine import duckdb, whole
from tracekit.errors import QueryError

T = TypeVar("T")

_ROWS_AT_ONCE = 1_000

_Answer = tuple[tuple[Column, ...], list[tuple[Any, ...]]]

# Python's types for these lose digits (a datetime has no nanoseconds, a timedelta no months) or
# need a package that may be missing (pytz): DuckDB's own text is exact.
_AS_TEXT = re.compile(r"WITH TIME ZONE|TIMESTAMP_NS|TIME_NS|INTERVAL")


def run_analysis(
    connection: duckdb.DuckDBPyConnection,
    spec: Spec,
    params: Mapping[str, object],
    known: Mapping[str, Result] | None = None,
) -> Result:
    """Run one analysis.

    Args:
        connection: a connection to a store that has the views which the analysis requires.
        spec: the analysis.
        params: values by parameter name; the defaults of the header fill the rest.
        known: results of analyses with their default parameters, by name: what a reduction reduces
            and is here is not run again.

    Returns:
        A result with exactly the declared columns.

    Raises:
        QueryError: a parameter is unknown or missing.
        UsageError: a parameter has the wrong type.
        StoreError: memory or disk ran out.
        RuntimeError: the SQL returns other columns than its header declares, which is a bug in the
            file.
    """
    values = bind(spec, params)
    known = known or {}
    inputs = {one: input_of(connection, spec, one, known, values) for one in spec.reduces}
    return _run(connection, spec, params, inputs)


def run_reductions(
    connection: duckdb.DuckDBPyConnection, specs: Sequence[Spec], known: Mapping[str, Result]
) -> list[Result]:
    """Run several reductions with their default parameters; what they share is laid out once.

    Args:
        connection: as for :func:`run_analysis`.
        specs: the reductions.
        known: results of analyses by name, as for :func:`run_analysis`.

    Returns:
        Their results, in the order of ``specs``.

    Raises:
        The errors of :func:`run_analysis`.
    """
    named = {reduced: spec for spec in specs for reduced in spec.reduces}
    inputs = {one: input_of(connection, spec, one, known, {}) for one, spec in named.items()}
    read = {
        one: inputs[one]
        for spec in specs
        if not is_of_nothing(spec, inputs)
        for one in spec.reduces
    }

    def reduce_all() -> list[Result]:
        with rows_laid(connection, columns_read(specs, read)):
            return [_run(connection, spec, {}, inputs, is_laid=True) for spec in specs]

    return interruptible(connection, reduce_all)


def input_of(
    connection: duckdb.DuckDBPyConnection,
    spec: Spec,
    reduced: Reduced,
    known: Mapping[str, Result],
    params: Mapping[str, object],
) -> Result:
    """Return a result that an analysis reduces.

    Args:
        connection: as for :func:`run_analysis`.
        spec: the reduction.
        reduced: what its header names.
        known: results of analyses by name, as for :func:`run_analysis`.
        params: values of the parameters of the reduction by name.

    Raises:
        QueryError: there is no such analysis, or it cannot be reduced.
    """
    passed = passed_on(spec, reduced, params)
    if reduced.analysis in known and not passed:
        return known[reduced.analysis]
    other = load_catalog().analysis(reduced.analysis)
    check_reduced(spec, other)
    return run_analysis(connection, other, passed)


def _run(
    connection: duckdb.DuckDBPyConnection,
    spec: Spec,
    params: Mapping[str, object],
    inputs: Inputs,
    *,
    is_laid: bool = False,
) -> Result:
    statement = with_values(spec, bind(spec, params))
    if is_of_nothing(spec, inputs):
        declared = tuple(Column(column.name, column.type) for column in spec.columns)
        return Result(spec.name, declared, [])

    def ask() -> _Answer:
        with contextlib.nullcontext() if is_laid else rows_laid(connection, inputs):
            return _answer(connection, spec, statement)

    try:
        columns, rows = interruptible(connection, ask)
    except (duckdb.Error, UnicodeDecodeError) as error:
        blamed = store_error(spec.name, error)
        if blamed is None:
            raise
        raise blamed from error
    return Result(spec.name, columns, rows)


def run_sql(
    connection: duckdb.DuckDBPyConnection, text: str, *, max_rows: int | None = None
) -> Result:
    """Run a statement of the user's.

    Several statements are allowed as long as only the last one returns rows: no result is dropped
    silently. Nanosecond timestamps, timestamps with a time zone and intervals come as DuckDB's
    exact text.

    Args:
        connection: decides what the statement may do; nothing is restricted here.
        text: the SQL.
        max_rows: fetch no more rows than this.

    Raises:
        QueryError: DuckDB refuses the statement; the message is the first line of DuckDB's.
    """
    try:
        columns, rows = interruptible(connection, lambda: _run_text(connection, text, max_rows))
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise sql_error(connection, error) from error
    return Result("sql", columns, rows)


def stream_sql(
    connection: duckdb.DuckDBPyConnection, text: str, *, timeout_s: float | None = None
) -> RowStream:
    """Run a statement of the user's, as :func:`run_sql` does; its rows come as they are taken.

    Args:
        connection: decides what the statement may do; used by nothing else until the end.
        text: the SQL.
        timeout_s: how long the statement may take until its last row is there, seconds.

    Raises:
        QueryError: DuckDB refuses the statement, or it takes too long; also while rows are taken.
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
        return QueryError(
            f"the statement took longer than {timeout_s:g} s", hint="--timeout allows it more"
        )

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
    """Run statements; return the columns of the last, and what takes so many of its rows."""
    with _left_clean(connection):
        provide_macros_in(connection, text)
        *before, last = _statements(connection, text)
        for statement in before:
            connection.execute(statement)
            connection.complete()
        connection.execute(last)
        columns = columns_of(connection)
        if any(_AS_TEXT.search(column.type) for column in columns):
            connection.execute(_exact_relation(connection, last, columns).sql_query())
        return columns, connection.fetchmany


def _answer(connection: duckdb.DuckDBPyConnection, spec: Spec, statement: str) -> _Answer:
    with _left_clean(connection):
        provide_tables(connection, spec)
        provide_macros(connection, spec)
        execute(connection, statement)
        columns = columns_of(connection)
        _check_declared(spec, columns)
        return columns, connection.fetchall()


def _run_text(connection: duckdb.DuckDBPyConnection, text: str, max_rows: int | None) -> _Answer:
    with _left_clean(connection):
        provide_macros_in(connection, text)
        *before, last = _statements(connection, text)
        for statement in before:
            connection.execute(statement)
            connection.complete()
        connection.execute(last)
        columns = columns_of(connection)
        if any(_AS_TEXT.search(column.type) for column in columns):
            return columns, _exact_rows(connection, last, columns, max_rows)
        return columns, _fetch(connection, max_rows)


def _statements(connection: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise QueryError("the statement holds bytes that are no UTF-8") from error
    statements = connection.extract_statements(text)
    if not statements:
        raise QueryError(
            "there is no SQL statement to run", hint='for example: tracekit sql TRACE "SHOW TABLES"'
        )
    check_writes(connection, statements)
    for statement in statements[:-1]:
        if statement.type == duckdb.StatementType.SELECT:
            raise QueryError(
                "only the last of several statements may return rows",
                hint="run the SELECT statements one at a time",
            )
    return [statement.query for statement in statements]


def _exact_rows(
    connection: duckdb.DuckDBPyConnection,
    statement: str,
    columns: Sequence[Column],
    max_rows: int | None,
) -> list[tuple[Any, ...]]:
    """Read the statement again with the columns that Python's types would damage as text."""
    relation = _exact_relation(connection, statement, columns)
    if max_rows is not None:
        relation = relation.limit(max_rows)
    return relation.fetchall()


def _exact_relation(
    connection: duckdb.DuckDBPyConnection, statement: str, columns: Sequence[Column]
) -> duckdb.DuckDBPyRelation:
    connection.abort()
    whole()
    picked = ", ".join(
        f"CAST(#{position} AS VARCHAR)" if _AS_TEXT.search(column.type) else f"#{position}"
        for position, column in enumerate(columns, start=1)
    )
    return connection.sql(statement).project(picked)


def _fetch(connection: duckdb.DuckDBPyConnection, max_rows: int | None) -> list[tuple[Any, ...]]:
    if max_rows is None:
        return connection.fetchall()
    rows = connection.fetchmany(max_rows)
    connection.abort()
    return rows


def columns_of(connection: duckdb.DuckDBPyConnection) -> tuple[Column, ...]:
    """Return the columns of the open result, with a number after a name that comes twice."""
    columns: list[Column] = []
    taken: set[str] = set()
    for name, type_name, *_ in connection.description or ():
        unique, number = name, 0
        while unique in taken:
            number += 1
            unique = f"{name}_{number}"
        taken.add(unique)
        columns.append(Column(unique, str(type_name)))
    return tuple(columns)


def _check_declared(spec: Spec, columns: Sequence[Column]) -> None:
    different = declared_otherwise(spec, columns)
    if different is not None:
        raise RuntimeError(f"{spec.path}: the columns are not those of the header ({different})")


@contextmanager
def _left_clean(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Leave no open result behind on an error: it would block the connection."""
    try:
        yield
    except BaseException:
        connection.abort()
        raise
