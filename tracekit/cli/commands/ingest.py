"""`tracekit ingest`: create a store or dataset from traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import Reading, format_option, reading_options, trace_argument
from tracekit.errors import TraceError, UsageError
from tracekit.render._text import printable
from tracekit.units import MB

if TYPE_CHECKING:
    from tracekit.analysis.result import Result


@click.command(name="ingest")
@trace_argument
@click.option(
    "-o",
    "--output",
    metavar="STORE",
    required=True,
    help="Output: a store (run.duckdb) or a dataset of many ranks (run.tracekit).",
)
@click.option("--force", is_flag=True, help="Replace the store if it exists.")
@reading_options("rules", "capture", "engine")
def command(traces: tuple[str, ...], output: str, force: bool, reading: Reading) -> None:
    """Store a trace as a DuckDB file or Parquet dataset.

    Every command accepts the result as TRACE. A store (.duckdb) is one file for any DuckDB client.
    A dataset (.tracekit) is a folder of Parquet files, written in parallel. If some ranks cannot be
    read, the exit code is 3, and repeating the command reads only the missing ones.
    """
    if output.rstrip("/").endswith(".tracekit"):
        if reading.capture:
            raise UsageError("--capture needs a store", hint="use -o NAME.duckdb")
        _ingest_dataset(traces, output.rstrip("/"), force, reading)
        return
    if reading.engine is not None:
        raise UsageError(
            "--engine, --workers, and --memory need a dataset", hint="use -o NAME.tracekit"
        )
    _ingest_store(traces, Path(output), force, reading)


def _ingest_dataset(traces: tuple[str, ...], output: str, force: bool, reading: Reading) -> None:
    from tracekit.cli._open import print_missing
    from tracekit.cli._progress import ranks_bar
    from tracekit.engine.many_ranks import ingest_dataset
    from tracekit.opening import tune_for_traces
    from tracekit.storage import Location

    tune_for_traces()
    with ranks_bar() as progress:
        manifest = ingest_dataset(
            traces,
            output,
            force=force,
            rules=reading.rules,
            engine=reading.engine,
            progress=progress,
        )
    count = len(manifest.traces)
    event_count = sum(file.row_count for file in manifest.tables.get("record", ()))
    size_bytes = sum(file.size_bytes for file in manifest.files)
    click.echo(
        f"{printable(Location.of(output).shown)}: {count:,} trace{'' if count == 1 else 's'}, "
        f"{event_count:,} records, {size_bytes / MB:,.1f} MB",
        err=True,
    )
    if manifest.missing:
        print_missing([(one.location, one.reason) for one in manifest.missing])
        click.echo("hint: run the same command again to read only these", err=True)
        raise click.exceptions.Exit(TraceError.exit_code)


def _ingest_store(traces: tuple[str, ...], output: Path, force: bool, reading: Reading) -> None:
    from tracekit.analysis.run import run_sql
    from tracekit.cli._progress import progress_bar
    from tracekit.database.opening import open_store
    from tracekit.opening import ingest, tune_for_traces

    tune_for_traces()
    with progress_bar() as progress:
        store = ingest(
            traces,
            output,
            force=force,
            rules=reading.rules,
            capture=reading.capture,
            progress=progress,
        )
    # The rows need no check, because the store was just created here.
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
        click.echo("hint: one command can read only the traces of one run", err=True)


def _report(ingested: Result) -> list[str]:
    """Return a line per trace with the numbers of all, repaired, and rejected events."""
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


@click.group(name="cache")
def cache() -> None:
    """List, clear, or locate the cached stores."""


@cache.command(name="list")
@format_option
def list_command(format_name: str) -> None:
    """List the cached stores, most recently used first."""
    from tracekit.analysis.result import Result, columns_of_text
    from tracekit.database.cache import list_cached

    rows = [
        (str(store.source_path), store.size_bytes, _date(store.modified_s), "store")
        for store in list_cached()
    ]
    columns = columns_of_text(
        "source_path VARCHAR, size_bytes BIGINT, modified VARCHAR, holds VARCHAR"
    )
    emit(Result("cache", columns, rows), format_name)


def _date(time_s: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(time_s).astimezone().isoformat(timespec="seconds")


@cache.command(name="clear")
def clear_command() -> None:
    """Remove all cached stores, but no traces."""
    from tracekit.database.cache import cache_dir, clear_cache

    count = clear_cache()
    click.echo(
        f"removed {count} cached store{'' if count == 1 else 's'} from {cache_dir()}", err=True
    )


@cache.command(name="path")
def path_command() -> None:
    """Print the folder of the cached stores."""
    from tracekit.database.cache import cache_dir

    click.echo(cache_dir())
