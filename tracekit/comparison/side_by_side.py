"""SQL over two stores at once: what the one has as `base.…`, and the other as `new.…`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.errors import UsageError
from tracekit.sql_text import select_rows

if TYPE_CHECKING:
    import duckdb

    from tracekit.analysis.result import Result
    from tracekit.comparison.comparing import Comparison
    from tracekit.ingest.progress import Progress


def ask_both(
    base: str | Path,
    new: str | Path,
    statement: str,
    *,
    comparison: Comparison | None = None,
    rules: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Run a statement over the tables and views of two traces.

    Those of the base are `base.NAME`, those of the other side `new.NAME`, each as
    :meth:`tracekit.Trace.sql` has them. Where the statement names one, the tables of the
    comparison are there too: comparison_split, comparison_work and the others of
    :meth:`Comparison.results`.

    Args:
        base: a trace, a run folder or a store.
        new: another one.
        statement: SQL, of which the last statement returns rows.
        comparison: that of the two, if it is known already.
        rules: a rules file for the classifier.
        progress: called now and then while a trace is read.

    Raises:
        QueryError: DuckDB refuses the statement.
        StoreError: a store cannot be opened.
        TraceError: a trace cannot be read.
        UsageError: a side has no store of its own.
    """
    import tracekit
    from tracekit.analysis.run import run_sql
    from tracekit.comparison.comparing import compare
    from tracekit.database.opening import attach_stores

    stores: dict[str, Path] = {}
    for name, path in (("base", base), ("new", new)):
        with tracekit.open(path, rules=rules, progress=progress) as trace:
            if trace.store_path is None:
                raise UsageError(
                    f"{path}: no store is kept of it, which SQL over two traces needs",
                    hint="make one: tracekit ingest TRACE -o STORE.duckdb",
                )
            stores[name] = trace.store_path
    with contextlib.ExitStack() as resources:
        connection = attach_stores(stores, resources)
        if "comparison" in statement.lower():
            _lay(connection, comparison or compare(base, new, rules=rules))
        return run_sql(connection, statement)


def _lay(connection: duckdb.DuckDBPyConnection, comparison: Comparison) -> None:
    for name, result in comparison.results().items():
        types = {f'"{column.name}"': column.type for column in result.columns}
        connection.execute(f"CREATE TABLE {name} AS {select_rows(types, result.rows)}")
