"""`tracekit breakdown`: a summary of a run on one screen."""

from __future__ import annotations

import click

from tracekit.cli._emit import emit
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
    help="Show all rows, not only the largest, and add the critical path and suggested changes.",
)
@full_wide_option
@format_option
@reading_options("rules", "capture", "peak_rates", "unprofiled_step", "step", "no_cache", "engine")
def command(
    traces: tuple[str, ...], full: bool, wide: bool, format_name: str, reading: Reading
) -> None:
    """Summarize where GPU time went.

    Shows the step time, busy and idle time, and the largest phases, kernel classes, and modules.
    The last lines rate the quality of the data.
    """
    import shlex
    import sys

    from tracekit.analysis.breakdown import of_steps
    from tracekit.cli._open import closed_meanwhile, open_traces
    from tracekit.cli.commands.advise import short_advice_lines
    from tracekit.render._console import make_console

    with open_traces(traces, reading, for_breakdown=True) as trace:
        results = trace.breakdown(full=full)
        if format_name != "brief":
            results |= trace.results(of_steps(results))
        advice = None
        if full and "path_totals" in results:
            advice = trace.advise().as_result()
        if advice is not None and format_name != "table":
            results[advice.name] = advice
        with closed_meanwhile(trace):
            emit(results, format_name, full=full, wide=wide)
            if format_name == "table" and results.get("timeline"):
                width = make_console(sys.stdout).width
                click.echo("\n".join(short_advice_lines(advice, shlex.join(traces), width)))
