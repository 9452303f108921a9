"""Creates derived tables by one pass over sorted rows, in C (native/).

A sweep is faster than equivalent SQL with window functions and joins. The SQL of such a table
returns the input rows of its sweep.
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
    """A sweep that creates a table.

    Attributes:
        name: name of the sweep in native/.
        order: sort order of the table if it differs from the order of the sweep's output.
    """

    name: str
    order: str = ""


SWEEPS = {
    "device_events": Sweep("owned_time"),
    "idle_gap": Sweep("idle_gaps"),
    "cpu_work": Sweep("self_time", order="ORDER BY trace_id, ts_ns, dur_ns, event_id"),
}
"""The sweeps by table."""

SWEPT = "swept_rows"


def sweep_table(connection: duckdb.DuckDBPyConnection, spec: Spec) -> int:
    """Fill a table of :data:`SWEEPS` and return its number of rows."""
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
    source: duckdb.DuckDBPyConnection | None = None,
) -> Iterator[None]:
    """Run a sweep over the rows of a statement; its output is relation ``SWEPT``, to be read once.

    The statement runs on `source`, or on another connection to the store, concurrently with the
    reader of ``SWEPT``.
    """
    with contextlib.ExitStack() as own:
        if source is None:
            source = own.enter_context(contextlib.closing(cursor_of(connection)))
        try:
            stream = source.sql(statement).__arrow_c_stream__()
            connection.register(SWEPT, native.sweep(name, stream))
            try:
                yield
            finally:
                connection.unregister(SWEPT)
        except duckdb.Error as error:
            # Arrow streams report errors as text.
            if "Out of Memory Error" in str(error):
                raise duckdb.OutOfMemoryException(str(error)) from error
            raise
