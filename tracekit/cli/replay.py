"""`tracekit replay TRACE`: does the dependency graph give the recorded run back?"""

from __future__ import annotations

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import Reading, format_option, reading_options, trace_argument


@click.command(name="replay")
@trace_argument
@format_option
@reading_options("rules", "no_cache")
def command(traces: tuple[str, ...], format_name: str, reading: Reading) -> None:
    """Work out again when everything ran, from who waited for whom.

    Nothing is copied from the recording but durations: the error says what predictions rest on.
    """
    from tracekit.cli._open import open_traces
    from tracekit.cli.query import say_what_is_missing

    with open_traces(traces, reading) as trace:
        result = trace.query("replay")
        emit(result, format_name)
        if not result.rows:
            say_what_is_missing(trace, "replay")
