"""`tracekit query pivot TRACE`: device time, grouped by any two dimensions."""

from __future__ import annotations

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import (
    Reading,
    format_option,
    reading_options,
    trace_argument,
    wide_option,
)


@click.command(name="pivot")
@trace_argument
@click.option(
    "--rows",
    default="module",
    show_default=True,
    metavar="NAMES",
    help="Row dimensions, separated by commas: module, phase, class, op, kernel, layer, "
    "step, rank, …",
)
@click.option("--columns", metavar="NAME", help="Column dimension.")
@click.option(
    "--values",
    default="wall_ns",
    show_default=True,
    metavar="MEASURE",
    help="Value to sum: wall_ns, idle_ns, span_ns (both), kernel_ns, kernel_count, or bytes.",
)
@click.option(
    "--where", metavar="SQL", help="Condition on the columns, such as \"class = 'gemm'\"."
)
@click.option("--step", type=int, metavar="NUMBER", help="Show only this step.")
@format_option
@wide_option
@reading_options("rules", "capture", "no_cache", "engine")
def command(
    traces: tuple[str, ...],
    rows: str,
    columns: str | None,
    values: str,
    where: str | None,
    step: int | None,
    format_name: str,
    wide: bool,
    reading: Reading,
) -> None:
    """Pivot GPU time by any two dimensions.

    Rows and columns add up: wall_ns to the busy time of the devices, span_ns to their windows.
    """
    from tracekit.cli._open import open_traces
    from tracekit.cli.commands.query import print_empty_reasons

    names = [name.strip() for name in rows.split(",") if name.strip()]
    with open_traces(traces, reading) as trace:
        result = trace.pivot(names, columns, values, where, step)
        emit(result, format_name, wide=wide)
        if not result.rows:
            print_empty_reasons(trace, "timeline")
