"""`tracekit health`: how far the trace can be trusted."""

from __future__ import annotations

from pathlib import Path

import click

from tracekit.cli._options import format_option, no_cache_option, rules_option, trace_argument


@click.command(name="health")
@trace_argument
@format_option
@rules_option
@no_cache_option
def command(traces: tuple[str, ...], format_name: str, rules: Path | None, no_cache: bool) -> None:
    """Show how much of the trace every figure rests on."""
    from tracekit.cli._emit import emit
    from tracekit.cli._open import open_traces

    with open_traces(traces, no_cache=no_cache, rules=rules) as trace:
        emit(trace.health(), format_name)
