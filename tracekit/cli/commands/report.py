"""`tracekit report`: a summary of a run as one HTML file with charts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli._options import Reading, reading_options, trace_argument
from tracekit.errors import StoreError, TracekitError, UsageError
from tracekit.render._text import printable
from tracekit.units import format_bytes

if TYPE_CHECKING:
    from tracekit.report.overview_page import Run
    from tracekit.trace import Trace


@click.command(name="report")
@trace_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    required=True,
    help="Output page; replaces an earlier report.",
)
@click.option(
    "--base",
    metavar="BASE",
    help="Compare TRACE (one run) with this run, like tracekit compare.",
)
@click.option(
    "--each",
    is_flag=True,
    help="For several runs, also write a linked report of each next to the page.",
)
@click.option("--force", is_flag=True, help="Replace a file that is not a report.")
@reading_options("rules", "peak_rates", "unprofiled_step", "step", "no_cache")
def command(
    traces: tuple[str, ...],
    output: Path,
    base: str | None,
    each: bool,
    force: bool,
    reading: Reading,
) -> None:
    """Write an HTML report.

    The file needs no network. Each section names the command and the SQL behind it. Two runs (BASE
    NEW) are compared; a folder of runs, such as a sweep, becomes a table.
    """
    from tracekit.cli._open import open_traces
    from tracekit.report import check_output, overview_page, report, several_runs, write

    check_output(output, force=force)
    if not output.parent.is_dir():
        raise StoreError(f"{output}: the folder does not exist")
    html = ""
    if base is not None:
        html = compared(base, traces, reading)
    else:
        with open_traces(traces, reading, for_breakdown=True) as trace:
            runs = several_runs(trace, traces)
            if not runs and len(traces) == 2 and not _are_ranks(trace):
                _print_two_runs(traces)
            elif not runs:
                html = report(trace, traces)
            elif len(traces) == len(runs) == 2 and not each:
                _print_two_runs(traces)
            else:
                links = _each(runs, output, reading, force=force) if each else {}
                html = overview_page(trace, traces, runs, links)
        html = html or compared(traces[0], traces[1:], reading)
    write(html, output)
    click.echo(f"{output}: {format_bytes(output.stat().st_size)}", err=True)


def _are_ranks(trace: Trace) -> bool:
    """Return whether traces may be ranks of one run; two traces need known, distinct ranks."""
    ((count, rank_count),) = trace.sql("SELECT count(*), count(DISTINCT rank) FROM trace").rows
    return bool(count == rank_count or count != 2)


def _print_two_runs(traces: Sequence[str]) -> None:
    base, new = map(printable, traces)
    click.echo(f"comparing two runs: {base} → {new}", err=True)


def _each(runs: Sequence[Run], output: Path, reading: Reading, *, force: bool) -> dict[str, str]:
    """Write a report of each run into a folder next to the page.

    Returns:
        The path of each report, relative to the page, by name of the run. Runs without a report
        are named on stderr.
    """
    from tracekit.cli._open import open_traces
    from tracekit.report import check_output, report, write
    from tracekit.report.overview_page import file_names

    folder = output.with_name(f"{output.stem}-runs")
    files = {run.named: folder / name for run, name in zip(runs, file_names(runs), strict=True)}
    for file in files.values():
        check_output(file, force=force)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}") from error
    links = {}
    for named, file in files.items():
        html = ""
        try:
            with open_traces([named], reading, for_breakdown=True) as trace:
                html = report(trace, [named])
        except click.exceptions.Exit:
            # Unreadable ranks were already listed; the report covers the other ranks.
            if not html:
                raise
        except StoreError:
            raise
        except TracekitError as error:
            click.echo(f"warning: no report for {printable(named)}: {error.message}", err=True)
            continue
        write(html, file)
        links[named] = f"{folder.name}/{file.name}"
    return links


def compared(
    base: str, traces: tuple[str, ...], reading: Reading, changes: tuple[str, ...] = ()
) -> str:
    """Return the report of a comparison."""
    from tracekit.cli._open import open_traces
    from tracekit.comparison.comparing import compare
    from tracekit.report import comparison_page, modules_of

    if len(traces) > 1:
        raise UsageError("--base takes only one TRACE", hint="pass the folder of its ranks")
    (new,) = traces
    results = compare(base, new, cache=not reading.no_cache, rules=reading.rules).results()
    sides = {}
    for side, named in (("base", base), ("new", new)):
        with open_traces([named], reading, for_breakdown=True) as trace:
            sides[side] = modules_of(trace)
    return comparison_page(results, sides, base, new, changes)
