"""`tracekit compare paper TABLE RUNS`: published figures of the paper next to figures of runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import Reading, format_option, reading_options
from tracekit.errors import UsageError
from tracekit.render._text import printable
from tracekit.units import format_bytes

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.paper.runs import Ask
    from tracekit.paper.tables import PaperTable
    from tracekit.storage import Place

_FOR_PEOPLE = ("table", "markdown")
_WIDTH = 100


@click.command(name="paper")
@click.argument("table", metavar="[TABLE]", required=False)
@click.argument("runs", metavar="[RUNS]...", nargs=-1)
@click.option("--list", "list_them", is_flag=True, help="List the tables with a description.")
@click.option(
    "--platform",
    metavar="NAME",
    help="Show only this platform of the paper, such as A800 or RTX4090.  [default: all, "
    "or A800 with runs]",
)
@click.option(
    "--strict",
    "is_strict",
    is_flag=True,
    help="Show only runs whose model, layers, and batch size match the row.",
)
@click.option(
    "--pictures",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="Write a page that compares the figures of RUNS with the paper; takes no TABLE.",
)
@reading_options("no_cache")
@format_option
def command(
    table: str | None,
    runs: tuple[str, ...],
    list_them: bool,
    platform: str | None,
    is_strict: bool,
    pictures: Path | None,
    reading: Reading,
    format_name: str,
) -> None:
    """Show a table of arXiv 2311.03687, and your runs next to it.

    TABLE is table1 to table16, or the name of a figure with stated values. RUNS are run folders, or
    folders of them. A run is shown next to the row with its stage, method, and subject (phase,
    module, shape, …). Differences in the setup (model, layers, devices, framework, precision,
    sizes) are listed above and marked in the row. Rows and runs without a match follow, with the
    reasons. Impossible printed values are marked.
    """
    from tracekit.paper.bench_figures import BENCH_FIGURES
    from tracekit.paper.tables import find_table

    if list_them:
        emit(_list_result(), format_name)
        return
    if pictures is not None:
        _pictures(pictures, (table, *runs) if table is not None else runs, reading=reading)
        return
    if table is None:
        raise UsageError("which table?", hint="list them with tracekit compare paper --list")
    published = find_table(table)
    if not runs:
        result = published.to_result(platform)
        _head(published, format_name)
        emit(result, format_name)
        if format_name in _FOR_PEOPLE:
            _foot([_setup(published), *published.notes])
        return
    if table in BENCH_FIGURES:
        _bench_figure(published, runs, platform, reading=reading, format_name=format_name)
        return
    _comparison(
        published,
        runs,
        platform,
        is_strict=is_strict,
        reading=reading,
        format_name=format_name,
    )


def _pictures(output: Path, paths: tuple[str, ...], *, reading: Reading) -> None:
    """Write the figures of runs as a page."""
    from tracekit.cli._open import open_traces
    from tracekit.report import check_output, runs_page, write

    if not paths:
        raise UsageError("which runs?", hint="tracekit compare paper --pictures FILE.html RUNS")
    check_output(output)

    def roles_of(folder: str) -> Result:
        with open_traces((folder,), reading) as trace:
            return trace.query("roles")

    with open_traces(paths, reading, reads_traces=False) as runs:
        html = runs_page(runs, paths, roles_of)
    write(html, output)
    click.echo(f"{output}: {format_bytes(output.stat().st_size)}", err=True)


def _comparison(
    published: PaperTable,
    paths: tuple[str, ...],
    platform: str | None,
    *,
    is_strict: bool,
    reading: Reading,
    format_name: str,
) -> None:
    from tracekit.paper import presentation
    from tracekit.paper.comparison import NO_SUCH_ROW, compare
    from tracekit.paper.runs import find_our_runs

    result = find_our_runs(paths, lambda folder: _ask_of(folder, reading=reading))
    for problem in result.problems:
        click.echo(f"warning: skipped: {printable(problem)}", err=True)
    if platform is None and "stage" in published.setup and "A800" in published.platforms:
        # All module analyses of the paper are about this platform.
        platform = "A800"
    comparison = compare(published, result.runs, platform, is_strict=is_strict)
    if format_name not in _FOR_PEOPLE:
        emit(presentation.flat_result(comparison), format_name)
        return
    _head(published, format_name)
    sides = [f"{side}: {facts}" for side, facts in presentation.sides(comparison)]
    _paragraphs([*sides, *presentation.setup_remarks(comparison)])
    if sides:
        click.echo()
    emit(presentation.comparison_result(comparison), format_name)
    without = presentation.count_without_run(comparison.lines)
    if without and "stage" in published.setup:
        click.echo(f"\n{without} rows of the paper without a measured run")
    why, alone = presentation.alone_result(comparison)
    if alone.rows:
        head = "Measured values without a row in the paper" if sides else "Ours"
        text = f"{head}: {printable(why)}" if why not in (None, NO_SUCH_ROW) else f"{head}:"
        click.echo(f"\n{click.wrap_text(text, width=_text_width())}\n")
        emit(alone, format_name)
    _foot([*presentation.remarks(comparison), *published.notes])


def _bench_figure(
    published: PaperTable,
    paths: tuple[str, ...],
    platform: str | None,
    *,
    reading: Reading,
    format_name: str,
) -> None:
    """Show the paper's statements about a microbenchmark figure, and the measured points."""
    from tracekit.cli._open import open_traces
    from tracekit.paper import bench_figures

    figure = bench_figures.BENCH_FIGURES[published.name]
    stated = published.to_result(platform)
    curves = {str(row["curve"]): row for row in published.of_platform(platform)}
    with open_traces(paths, reading, reads_traces=False) as trace:
        points = trace.query(figure.analysis)
    if format_name not in _FOR_PEOPLE:
        emit(bench_figures.flat_result(published.name, curves, points), format_name)
        return
    ours = bench_figures.of_figure(figure, points)
    _head(published, format_name)
    emit(stated, format_name)
    click.echo(
        f"\nMeasured on: {printable('; '.join(bench_figures.machines(ours)) or 'no such point')}"
    )
    if ours.rows:
        click.echo()
        emit(ours, format_name)
    remarks = bench_figures.remarks(published.name, curves, points)
    _foot([*remarks, _setup(published), *published.notes])


def _ask_of(folder: Place, *, reading: Reading) -> Ask:
    """Return a function that queries the traces of a run, which its first call opens."""

    def ask(name: str, **params: object) -> Result:
        from tracekit.cli._open import open_traces

        with open_traces((str(folder),), reading) as trace:
            return trace.query(name, **params)

    return ask


def _head(published: PaperTable, format_name: str) -> None:
    if format_name in _FOR_PEOPLE:
        mark = "## " if format_name == "markdown" else ""
        click.echo(f"{mark}{published.title} ({published.source})\n")


def _foot(notes: Sequence[str]) -> None:
    if notes:
        click.echo()
        _paragraphs(notes)


def _paragraphs(texts: Sequence[str]) -> None:
    """Write strings as a wrapped list, which is also valid Markdown."""
    for text in texts:
        shown = click.wrap_text(
            printable(text), width=_text_width(), initial_indent="* ", subsequent_indent="  "
        )
        click.echo(shown)


def _text_width() -> int:
    from tracekit.render.table import width_of

    return min(_WIDTH, width_of(sys.stdout))


def _setup(published: PaperTable) -> str:
    facts = (f"{name.replace('_', ' ')} {value}" for name, value in published.setup.items())
    return ", ".join(facts) + "."


def _list_result() -> Result:
    from tracekit.analysis.result import Column, Result
    from tracekit.paper.bench_figures import BENCH_FIGURES
    from tracekit.paper.measures import MEASURES
    from tracekit.paper.tables import load_tables

    sources = {name: measure.source for name, measure in MEASURES.items()}
    sources |= {name: figure.analysis for name, figure in BENCH_FIGURES.items()}
    rows = [
        (name, sources.get(name), table.source, table.title)
        for name, table in load_tables().items()
    ]
    names = ("name", "analysis", "source", "meaning")
    return Result("paper", tuple(Column(name, "VARCHAR") for name in names), rows)
