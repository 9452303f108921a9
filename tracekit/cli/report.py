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
@click.option(
    "--base",
    metavar="BASE",
    help="Report how TRACE, one run then, differs from this one: what compare says.",
)
@click.option("--force", is_flag=True, help="Replace a file that is no report.")
@rules_option
@ceilings_option
@no_cache_option
def command(
    traces: tuple[str, ...],
    output: Path,
    base: str | None,
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
    from tracekit.units import format_bytes

    check_output(output, force=force)
    if base is not None:
        html = _compared(base, traces, no_cache=no_cache, rules=rules)
    else:
        with open_traces(
            traces, no_cache=no_cache, rules=rules, ceilings=ceilings, expect_breakdown=True
        ) as trace:
            html = report(trace, traces)
    write(html, output)
    click.echo(f"{output}: {format_bytes(output.stat().st_size)}", err=True)


def _compared(base: str, traces: tuple[str, ...], *, no_cache: bool, rules: Path | None) -> str:
    """Return the report of a comparison.

    Raises:
        UsageError: there are several traces on the new side.
    """
    from tracekit.cli._open import open_traces
    from tracekit.comparison.comparing import compare
    from tracekit.errors import UsageError
    from tracekit.report import comparison_page, modules_of

    if len(traces) > 1:
        raise UsageError("with --base there is one TRACE", hint="give the folder of its ranks")
    (new,) = traces
    results = compare(base, new, cache=not no_cache, rules=rules).results()
    sides = {}
    for side, named in (("base", base), ("new", new)):
        with open_traces([named], no_cache=no_cache, rules=rules) as trace:
            sides[side] = modules_of(trace)
    return comparison_page(results, sides, base, new)
