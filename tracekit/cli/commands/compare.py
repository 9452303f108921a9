"""`tracekit compare`: the difference between two runs, its location, and its significance."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import (
    Reading,
    format_option,
    full_wide_option,
    reading_options,
    skip_option,
)
from tracekit.errors import UsageError
from tracekit.sql_text import select_rows

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.ingest.trace_readers import Progress


@click.command(name="compare")
@click.argument("base", metavar="BASE")
@click.argument("new", metavar="NEW")
@click.option(
    "--base",
    "more_base",
    metavar="TRACE",
    multiple=True,
    help="Another repeat of the base run; may be given several times.",
)
@click.option(
    "--new",
    "more_new",
    metavar="TRACE",
    multiple=True,
    help="Another repeat of the new run; may be given several times.",
)
@click.option(
    "--per",
    type=click.Choice(["step", "window", "layer", "token", "request"]),
    help="Unit to normalize times by.  [default: step if both sides have steps, and one several]",
)
@click.option(
    "--by",
    type=click.Choice(["module", "class", "phase"]),
    default="module",
    show_default=True,
    help="First dimension by which to split the compute difference.",
)
@skip_option
@click.option(
    "--within",
    "margin_pct",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="PCT",
    help="Ignore differences up to this share of the base.",
)
@click.option(
    "--sql", "statement", metavar="SELECT", help="Query both traces: views base.* and new.*."
)
@click.option("--full", is_flag=True, help="Show all rows, not only the largest.")
@full_wide_option
@format_option
@reading_options("rules", "no_cache")
def command(
    base: str,
    new: str,
    more_base: tuple[str, ...],
    more_new: tuple[str, ...],
    per: str | None,
    by: str,
    skip: int,
    margin_pct: float,
    statement: str | None,
    full: bool,
    wide: bool,
    format_name: str,
    reading: Reading,
) -> None:
    """Compare two runs.

    The difference is split into parts that add up to it: compute, exposed communication, exposed
    copies, and idle time, by phase, module, class, and cause. Steps are samples: a statistical test
    decides whether a difference is real. One step per side gives no verdict.
    """
    from tracekit.cli._progress import progress_bar
    from tracekit.opening import tune_for_traces

    tune_for_traces()
    if statement is not None:
        with progress_bar() as progress:
            answer = ask_both(base, new, statement, rules=reading.rules, progress=progress)
        emit(answer, format_name, units=False, wide=wide)
        return
    from tracekit.comparison.comparing import compare

    with progress_bar() as progress:
        result = compare(
            [base, *more_base],
            [new, *more_new],
            per=per,  # type: ignore[arg-type]
            skip=skip,
            margin_pct=margin_pct,
            cache=not reading.no_cache,
            rules=reading.rules,
            progress=progress,
        )
    emit(result.results(by), format_name, full=full, wide=wide)  # type: ignore[arg-type]


def ask_both(
    base: str | Path,
    new: str | Path,
    statement: str,
    *,
    rules: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Run SQL on the tables and views of two traces, and on the results of their comparison.

    `base.NAME` and `new.NAME` are the relations of :meth:`tracekit.Trace.sql` of each side. The SQL
    can also read the results of :meth:`Comparison.results`, such as comparison_split.

    Args:
        base: a trace, a run folder, or a store.
        new: the other side, in the same form.
        statement: SQL; its last statement returns rows.
        rules: a rules file for the classifier.
        progress: called periodically while a trace is read.
    """
    from tracekit.analysis.run import run_sql
    from tracekit.comparison.comparing import compare
    from tracekit.database.opening import attach_stores
    from tracekit.opening import OpenRequest, open_request

    stores: dict[str, Path] = {}
    for name, path in (("base", base), ("new", new)):
        with open_request(OpenRequest([path], rules=rules, progress=progress)) as trace:
            if trace.store_path is None:
                raise UsageError(
                    f"{path}: SQL on two traces needs a store, but none is cached",
                    hint="create one: tracekit ingest TRACE -o STORE.duckdb",
                )
            stores[name] = trace.store_path
    with contextlib.ExitStack() as resources:
        connection = attach_stores(stores, resources)
        if "comparison" in statement.lower():
            for name, result in compare(base, new, rules=rules).results().items():
                types = {f'"{column.name}"': column.type for column in result.columns}
                rows = select_rows(types, result.rows)
                connection.execute(f"CREATE TABLE {name} AS {rows}")
        return run_sql(connection, statement)
