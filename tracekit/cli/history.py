"""`tracekit check history`: several runs over time, and where their figures change."""

from __future__ import annotations

from pathlib import Path

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import baselines_option, format_option, full_wide_option, no_cache_option


@click.command(name="history")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--as-given", is_flag=True, help="Keep the given order instead of sorting by time.")
@click.option(
    "--within",
    "margin_pct",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    metavar="PCT",
    help="Ignore changes up to this share; for percentages, up to this many points.",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write an HTML page with charts; replaces an earlier page.",
)
@baselines_option
@full_wide_option
@format_option
@no_cache_option
def command(
    runs: tuple[str, ...],
    as_given: bool,
    margin_pct: float,
    page: Path | None,
    baselines: str | None,
    wide: bool,
    format_name: str,
    no_cache: bool,
) -> None:
    """Show figures of several runs over time.

    A RUN is a run folder, a trace, or a baseline (its name, path, or URL), in order of creation.
    Below is the run in which a figure changed by more than the variation between runs; with fewer
    than five runs, the variation between steps decides. The commit is the one that the CI named
    when the run was recorded (GITHUB_SHA, CI_COMMIT_SHA).
    """
    from tracekit.checking.baseline import DEFAULT_FOLDER
    from tracekit.checking.history import history
    from tracekit.cli._progress import progress_bar

    if page is not None:
        from tracekit.report import check_output

        check_output(page, force=False)
    with progress_bar() as progress:
        tables = history(
            runs,
            baselines=baselines or DEFAULT_FOLDER,
            by_date=not as_given,
            margin_pct=margin_pct,
            cache=not no_cache,
            progress=progress,
        )
    emit(tables, format_name, wide=wide)
    if page is not None:
        from tracekit.report import write
        from tracekit.report.history_page import history_page

        write(history_page(tables, runs), page)
