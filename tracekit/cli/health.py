"""`tracekit health`: how far the trace can be trusted."""

from __future__ import annotations

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import Reading, format_option, reading_options, trace_argument


@click.command(name="health")
@trace_argument
@format_option
@reading_options("rules", "capture", "no_cache", "engine")
def command(traces: tuple[str, ...], format_name: str, reading: Reading) -> None:
    """Show how much of the trace every figure rests on."""
    from tracekit.cli._open import open_traces

    with open_traces(traces, reading) as trace:
        emit(trace.health(), format_name)
