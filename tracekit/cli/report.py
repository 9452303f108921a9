"""`tracekit report`: the summary of a run as one HTML file, with pictures."""

from __future__ import annotations

from pathlib import Path

import click

from tracekit.cli._options import ceilings_option, no_cache_option, rules_option, trace_argument


@click.command(name="report")
@trace_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    required=True,
    help="Where to write the page; an earlier report is replaced.",
)
@click.option("--force", is_flag=True, help="Replace a file that is no report.")
@rules_option
@ceilings_option
@no_cache_option
def command(
    traces: tuple[str, ...],
    output: Path,
    force: bool,
    rules: Path | None,
    ceilings: Path | None,
    no_cache: bool,
) -> None:
    """Write what a breakdown says, and more, as one HTML file with pictures and tables.

    The file opens by double click and needs no network. Its figures are those of the analyses, and
    each section names the command and the SQL that give the same.
    """
    from tracekit.cli._open import open_traces
    from tracekit.report import check_output, report, write

    check_output(output, force=force)
    with open_traces(
        traces, no_cache=no_cache, rules=rules, ceilings=ceilings, expect_breakdown=True
    ) as trace:
        html = report(trace, traces)
    write(html, output)
    from tracekit.units import format_bytes

    click.echo(f"{output}: {format_bytes(output.stat().st_size)}", err=True)
