"""`tracekit reproduce TRACE --op aten::mm`: a program that calls recorded ops again."""

from __future__ import annotations

from pathlib import Path

import click

from tracekit.cli._options import Reading, reading_options, trace_argument
from tracekit.cli.export import output_option
from tracekit.render._text import printable

_MAX_BYTES = 100_000_000


@click.command(name="reproduce")
@trace_argument
@click.option("--op", metavar="NAME", help="Only calls of this op: aten::mm.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    metavar="N",
    help="Calls with different arguments, those that took longest.",
)
@output_option
@reading_options("rules", "no_cache")
def command(
    traces: tuple[str, ...],
    op: str | None,
    limit: int,
    output: Path,
    force: bool,
    reading: Reading,
) -> None:
    """Write a Python program that calls recorded ops again, with torch alone.

    Arguments have the recorded shapes, types, strides and numbers; contents of tensors are in no
    trace. Run it where torch is: it prints the recorded time of each call beside the time now.
    """
    from tracekit.cli._open import open_traces
    from tracekit.export.op_program import op_program
    from tracekit.export.output import written_whole

    with (
        written_whole(output, force=force, max_bytes=_MAX_BYTES) as out,
        open_traces(traces, reading) as trace,
    ):
        program, call_count = op_program(trace, op, limit)
        out.write(program.encode())
    click.echo(printable(f"{output}: {call_count} calls; python {output} runs them"), err=True)
