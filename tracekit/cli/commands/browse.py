"""`tracekit browse`: an interactive breakdown in the terminal."""

from __future__ import annotations

import sys

import click

from tracekit.cli._options import Reading, reading_options, trace_argument
from tracekit.errors import UsageError


@click.command(name="browse")
@trace_argument
@reading_options("rules", "peak_rates", "unprofiled_step", "step", "no_cache")
def command(traces: tuple[str, ...], reading: Reading) -> None:
    """Explore a trace in the terminal.

    Views: overview, modules, kernels, idle gaps and their causes, ranks, data quality, collectives,
    serving steps, and requests. Enter opens a row, Esc goes back, / searches, s shows the command
    and the SQL of a page, ? shows help, q quits.
    """
    from tracekit.browse import browse, check_installed
    from tracekit.cli._open import open_traces

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "browse needs a terminal",
            hint="tracekit breakdown prints the same figures",
        )
    check_installed()
    with open_traces(traces, reading, for_breakdown=True) as trace:
        exit_code = browse(trace, traces)
    if exit_code:
        raise click.exceptions.Exit(exit_code)
