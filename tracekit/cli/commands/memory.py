"""`tracekit query memory TRACE`: what occupied GPU memory at its peak."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import Reading, format_option, reading_options, trace_argument
from tracekit.errors import QueryError

if TYPE_CHECKING:
    from tracekit.trace import Trace

_ANALYSES = ("memory_peaks", "memory_holders")


@click.command(name="memory")
@trace_argument
@click.option(
    "--blocks", is_flag=True, help="Also show memory by all of these dimensions combined."
)
@format_option
@reading_options("rules", "no_cache")
def command(traces: tuple[str, ...], blocks: bool, format_name: str, reading: Reading) -> None:
    """Show what occupied GPU memory at its peak.

    Shows memory by category, phase, module, op, and line; each breakdown adds up to the peak.
    Record TRACE with profile_memory=True, or use a snapshot of torch.cuda.memory._dump_snapshot.
    """
    from tracekit.cli._open import open_traces
    from tracekit.cli.commands.query import print_empty_reasons

    names = (*_ANALYSES, "memory_peak") if blocks else _ANALYSES
    with open_traces(traces, reading) as trace:
        results = {name: trace.query(name) for name in names}
        if format_name == "table" and not results[_ANALYSES[0]].rows:
            print_run_peaks(trace)
        elif format_name == "json":
            emit(results, format_name)
        else:
            for number, result in enumerate(results.values()):
                if number and format_name in ("table", "markdown"):
                    click.echo()
                emit(result, format_name)
        if not results[_ANALYSES[0]].rows:
            print_empty_reasons(trace, "memory_peak")


def print_run_peaks(trace: Trace) -> None:
    """Print the peaks from run manifests if no allocator events were recorded."""
    from tracekit.units import format_bytes

    runs: list[dict[str, Any]] = []
    names = {
        "peak_device_bytes": "allocated",
        "peak_reserved_bytes": "reserved",
        "peak_host_bytes": "host memory",
    }
    with contextlib.suppress(QueryError):
        runs = trace.query("run").to_dicts()
    for row in runs:
        known = [f"{format_bytes(row[name])} {text}" for name, text in names.items() if row[name]]
        if known:
            click.echo(f"Highest peak of a rank: {', '.join(known)} (run.json)")
