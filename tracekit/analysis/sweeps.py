"""Makes derived tables by one pass over sorted rows, in C (native/).

What takes SQL windows, joins, and long plans is short as a sweep, and takes less time. The
statement of such a table gives the rows that its sweep takes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import duckdb

from tracekit import native
from tracekit.analysis.spec import Spec
from tracekit.database.connections import cursor_of


class Sweep(NamedTuple):
    """How a table is made by one.

    Attributes:
        name: the name of the sweep in native/.
        order: the order of the rows of the table, where it is not that in which they are given.
    """

    name: str
    order: str = ""


SWEEPS = {
    "device_events": Sweep("owned_time"),
    "idle_gap": Sweep("idle_gaps"),
    "cpu_work": Sweep("self_time", order="ORDER BY trace_id, ts_ns, dur_ns, event_id"),
}
"""The tables that are made so."""

SWEPT = "swept_rows"


def sweep_table(connection: duckdb.DuckDBPyConnection, spec: Spec) -> int:
    """Fill a table of :data:`SWEEPS`; return how many rows it has."""
    sweep = SWEEPS[spec.name]
    columns = ", ".join(f"{column.name}::{column.type} AS {column.name}" for column in spec.columns)
    with swept(connection, sweep.name, spec.sql):
        [(count,)] = connection.execute(
            f"INSERT INTO {spec.name} SELECT {columns} FROM {SWEPT} {sweep.order}"
        ).fetchall()
    return int(count)


@contextlib.contextmanager
def swept(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    statement: str,
    answers: native.Answers | None = None,
    source: duckdb.DuckDBPyConnection | None = None,
) -> Iterator[None]:
    """Have what a sweep makes of the rows of a statement as ``SWEPT``, to be read once.

    The rows are made on `source`, else on another connection to the store: what makes them and what
    takes them run at the same time. What `answers` raise is raised when this is left.
    """
    with contextlib.ExitStack() as own:
        if source is None:
            source = own.enter_context(contextlib.closing(cursor_of(connection)))
        try:
            stream = source.sql(statement).__arrow_c_stream__()
            connection.register(SWEPT, native.sweep(name, stream, answers))
            try:
                yield
            finally:
                connection.unregister(SWEPT)
        except duckdb.Error as error:
            if answers is not None and answers.error is not None:
                raise answers.error from None
            # Errors come out of a stream as texts.
            if "Out of Memory Error" in str(error):
                raise duckdb.OutOfMemoryException(str(error)) from error
            raise
