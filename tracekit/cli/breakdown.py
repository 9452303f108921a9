"""`tracekit breakdown`: the summary of a run on one screen."""

from __future__ import annotations

import click

from tracekit.cli._options import (
    Reading,
    format_option,
    full_wide_option,
    reading_options,
    trace_argument,
)


@click.command(name="breakdown")
@trace_argument
@click.option(
    "--full",
    is_flag=True,
    help="Show every row instead of the top ones, and the critical path.",
)
@full_wide_option
@format_option
@reading_options("rules", "ceilings", "no_cache", "engine")
def command(
    traces: tuple[str, ...], full: bool, wide: bool, format_name: str, reading: Reading
) -> None:
    """Summarise where the time of the trace went.

    The parts of each device's window add up to it exactly; the last line says how far the trace can
    be trusted.
    """
    from tracekit.cli._emit import emit
    from tracekit.cli._open import closed_meanwhile, open_traces

    with open_traces(traces, reading, only_breakdown=True) as trace:
        results = trace.breakdown(full=full)
        with closed_meanwhile(trace):
            emit(results, format_name, full=full, wide=wide)
