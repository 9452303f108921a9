"""Makes derived tables by one pass over sorted rows, in C where it is compiled.

What takes SQL windows, joins and long plans is short as a sweep, and takes less time. The statement
of such a table is what its rows are: its first part, ``swept``, is what the sweep takes too, and
without a C compiler, or where a sweep gives up for want of memory, the whole of it is run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import duckdb

from tracekit.analysis.spec import Spec
from tracekit.database import cursor_of
from tracekit.errors import StoreError


class Sweep(NamedTuple):
    """How a table is made by one.

    Attributes:
        name: the name of the sweep in native/.
        taken: the order of the rows that it takes, where ``swept`` does not say it.
        order: the order of the rows of the table, where it is not that in which they are given.
        is_required: nothing else makes the table: its statement is what the sweep takes.
    """

    name: str
    taken: str = ""
    order: str = ""
    is_required: bool = False


SWEEPS = {
    "device_events": Sweep(
        "owned_time",
        taken="ORDER BY trace_id, device, ts_ns, end_ns, stream, correlation, event_id",
    ),
    "idle_gap": Sweep("idle_gaps", is_required=True),
    "cpu_work": Sweep("self_time", order="ORDER BY trace_id, ts_ns, dur_ns, event_id"),
}
"""The tables that can be made so."""

SWEPT = "swept_rows"


def compiled_sweeps() -> Any:
    """Return the module with the compiled sweeps, None where it is not there."""
    try:
        import tracekit.analysis._sweeps as _sweeps
    except ImportError:
        return None
    return _sweeps


def sweep_table(connection: duckdb.DuckDBPyConnection, spec: Spec) -> bool:
    """Create a table by its sweep, where it has one that is compiled; return whether it was."""
    sweep = SWEEPS.get(spec.name)
    if sweep is None or (compiled_sweeps() is None and not sweep.is_required):
        return False
    if compiled_sweeps() is None:
        raise StoreError(f"table {spec.name} needs tracekit's native code, which is not built")
    columns = ", ".join(f"{column.name}::{column.type} AS {column.name}" for column in spec.columns)
    taken = spec.sql if sweep.is_required else swept_rows(spec)
    try:
        with swept(connection, sweep.name, f"{taken} {sweep.taken}"):
            connection.execute(
                f"CREATE TABLE {spec.name} AS SELECT {columns} FROM {SWEPT} {sweep.order}"
            )
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        if sweep.is_required:
            raise
        return False
    return True


@contextlib.contextmanager
def swept(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    statement: str,
    *asked: object,
    source: duckdb.DuckDBPyConnection | None = None,
) -> Iterator[None]:
    """Have what a compiled sweep makes of the rows of a statement as ``SWEPT``, to be read once.

    The rows are made on `source`, else on another connection to the store: what makes them and what
    takes them run at the same time.
    """
    with contextlib.ExitStack() as own:
        if source is None:
            source = own.enter_context(contextlib.closing(cursor_of(connection)))
        try:
            stream = source.sql(statement).__arrow_c_stream__()
            connection.register(SWEPT, compiled_sweeps().sweep(name, stream, *asked))
            try:
                yield
            finally:
                connection.unregister(SWEPT)
        except duckdb.Error as error:
            # Errors come out of a stream as texts.
            if "Out of Memory Error" in str(error):
                raise duckdb.OutOfMemoryException(str(error)) from error
            raise


def swept_rows(spec: Spec) -> str:
    """Return the statement whose rows the sweep of a table takes, but for their order."""
    _, found, rest = spec.sql.partition("WITH swept AS (")
    if not found:
        raise ValueError(f"{spec.name} does not begin with what is swept")
    return rest.partition("\n),\n")[0]
