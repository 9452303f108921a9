"""`tracekit sql TRACE "SELECT …"`: ad-hoc SQL."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from tracekit.cli._emit import MAX_ROWS, emit_stream
from tracekit.cli._options import Reading, format_option, reading_options, wide_option
from tracekit.errors import UsageError

_TRACE_ENDING = re.compile(r"\.(json|gz|duckdb)$", re.IGNORECASE)


@click.command(name="sql")
@click.argument("arguments", metavar="TRACE... [STATEMENT]", nargs=-1, required=True)
@format_option
@wide_option
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="ROWS",
    help=f"Maximum number of rows.  [default: {MAX_ROWS:,} in tables, else all]",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop the statement after this time.",
)
@click.option(
    "--unsafe",
    is_flag=True,
    help="Allow the SQL to access files and the network; only for SQL that you trust.",
)
@reading_options(
    "queries", "rules", "capture", "peak_rates", "unprofiled_step", "step", "no_cache", "engine"
)
def command(
    arguments: tuple[str, ...],
    format_name: str,
    wide: bool,
    limit: int | None,
    timeout_s: float | None,
    unsafe: bool,
    reading: Reading,
) -> None:
    """Run SQL on a trace.

    STATEMENT is SQL in quotes. Without it, or with -, SQL is read from stdin. Columns are shown in
    their base units.
    """
    from tracekit.cli._open import open_traces

    traces, statement = split_arguments(arguments)
    if statement in (None, "-"):
        if sys.stdin.isatty():
            click.echo("Reading SQL from the terminal; end with Ctrl-D.", err=True)
        statement = sys.stdin.read()
    with open_traces(traces, reading, unsafe=unsafe) as trace:
        stream = trace.stream_sql(statement, timeout_s=timeout_s)
        emit_stream(stream, format_name, limit, wide=wide)


def split_arguments(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Separate traces from the statement, which is the last argument if it is `-` or SQL."""
    *before, last = arguments
    if not _is_statement(last):
        return arguments, None
    if not before:
        raise UsageError("TRACE is missing", hint='for example: tracekit sql TRACE "SHOW TABLES"')
    return tuple(before), last


def _is_statement(argument: str) -> bool:
    """Return whether an argument is SQL: `-`, or several words that are not a path."""
    words = argument.strip().rstrip(";")
    if argument == "-" or not words:
        return True
    if not re.search(r"\s", words) or _TRACE_ENDING.search(words):
        return False
    try:
        return not Path(argument).exists()
    except (OSError, ValueError):
        return True
