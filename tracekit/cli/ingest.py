"""`tracekit ingest`: traces into a store file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli._options import rules_option, trace_argument

if TYPE_CHECKING:
    from tracekit.analysis.result import Result


@click.command(name="ingest")
@trace_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="STORE",
    required=True,
    help="The store to write, for example run.duckdb.",
)
@click.option("--force", is_flag=True, help="Replace the store if it exists.")
@rules_option
def command(traces: tuple[str, ...], output: Path, force: bool, rules: Path | None) -> None:
    """Build a store from trace files, folders or globs.

    The store appears under its name only when it is complete. It can be given as TRACE to every
    other command, and opened with any DuckDB client.
    """
    from tracekit.analysis.run import run_sql
    from tracekit.cli._interpreter import tune_for_traces
    from tracekit.cli._progress import progress_bar
    from tracekit.database import open_store
    from tracekit.opening import ingest

    tune_for_traces()
    with progress_bar() as progress:
        store = ingest(traces, output, force=force, rules=rules, progress=progress)
    # It was made here: what it holds need not be looked through, as that of a store one is given.
    with open_store(store) as connection:
        ingested = run_sql(
            connection,
            "SELECT file_name, rank, event_count, rejected_count, repaired_count, is_truncated, "
            "truncation_reason FROM trace ORDER BY rank, trace_id",
        )
        ((run_count,),) = run_sql(connection, "SELECT count(*) FROM run").rows
    for line in _report(ingested):
        click.echo(line, err=True)
    total = sum(ingested.column("event_count"))
    parts = [f"{len(ingested)} trace{'' if len(ingested) == 1 else 's'}", f"{total:,} events"]
    if run_count:
        parts.append(f"{run_count} run{'' if run_count == 1 else 's'}")
    click.echo(f"{store}: {', '.join(parts)}", err=True)
    if run_count > 1 and not ingested:
        click.echo("hint: traces are read of one run at a time", err=True)


def _report(ingested: Result) -> list[str]:
    """Return one line per trace: what was read, and what was not."""
    from tracekit.render._text import printable

    lines = []
    for row in ingested.to_dicts():
        rank = "unknown rank" if row["rank"] is None else f"rank {row['rank']}"
        parts = [rank, f"{row['event_count']:,} events"]
        if row["repaired_count"]:
            parts.append(f"{row['repaired_count']:,} repaired")
        if row["rejected_count"]:
            parts.append(f"{row['rejected_count']:,} rejected (see table rejected)")
        if row["is_truncated"]:
            parts.append(f"cut off: {row['truncation_reason']}")
        lines.append(printable(f"{row['file_name']}: {', '.join(parts)}"))
    return lines
