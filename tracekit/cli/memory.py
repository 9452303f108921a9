"""`tracekit query memory TRACE`: who held the memory when most was in use."""

from __future__ import annotations

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import Reading, format_option, reading_options, trace_argument

_ANALYSES = ("memory_peaks", "memory_holders")


@click.command(name="memory")
@trace_argument
@click.option(
    "--blocks", is_flag=True, help="Also show the holders by all of these dimensions combined."
)
@format_option
@reading_options("rules", "no_cache")
def command(traces: tuple[str, ...], blocks: bool, format_name: str, reading: Reading) -> None:
    """Show what occupied GPU memory at its peak.

    By category, phase, module, op, and line; each adds up to the peak. Record TRACE with
    profile_memory=True, or use a snapshot of torch.cuda.memory._dump_snapshot.
    """
    from tracekit.cli._open import open_traces
    from tracekit.cli.query import say_what_is_missing

    names = (*_ANALYSES, "memory_peak") if blocks else _ANALYSES
    with open_traces(traces, reading) as trace:
        results = {name: trace.query(name) for name in names}
        if format_name == "json":
            emit(results, format_name)
        else:
            for number, result in enumerate(results.values()):
                if number and format_name in ("table", "markdown"):
                    click.echo()
                emit(result, format_name)
        if not results[_ANALYSES[0]].rows:
            say_what_is_missing(trace, "memory_peak")
