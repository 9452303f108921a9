"""`tracekit baseline`: what a run was like, kept small for later checks."""

from __future__ import annotations

from pathlib import Path

import click

from tracekit.cli._options import format_option, no_cache_option

_folder_option = click.option(
    "--baselines",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The folder of baselines.  [default: .tracekit/baselines]",
)


@click.group(name="baseline")
def command() -> None:
    """Keep what a run was like, for `tracekit check --against NAME`."""


@command.command()
@click.argument("name")
@click.argument("trace", metavar="TRACE")
@_folder_option
@click.option(
    "--per",
    type=click.Choice(["step", "window"]),
    help="What times are divided by.  [default: step where several are marked, else window]",
)
@click.option(
    "--skip",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Leave out the first N steps.",
)
@no_cache_option
def save(
    name: str, trace: str, baselines: Path | None, per: str | None, skip: int, no_cache: bool
) -> None:
    """Keep what a run was like under a name; what had the name before is replaced.

    The file holds times by step, part, class, phase, module and op, no events: tens of kB to be
    kept beside the code.
    """
    import tracekit
    from tracekit.checking.baseline import DEFAULT_FOLDER, path_of
    from tracekit.checking.baseline import save as write
    from tracekit.checking.checking import keep
    from tracekit.cli._progress import progress_bar

    folder = baselines or DEFAULT_FOLDER
    path_of(name, folder)
    with (
        progress_bar() as progress,
        tracekit.open(trace, cache=not no_cache, progress=progress) as opened,
    ):
        kept = keep(name, opened, Path(trace).name, per=per, skip=skip)  # type: ignore[arg-type]
    path = write(kept, folder)
    click.echo(f"{path}: {len(kept.side.sample_units):,} samples, {path.stat().st_size:,} bytes")


@command.command(name="list")
@_folder_option
@format_option
def list_baselines(baselines: Path | None, format_name: str) -> None:
    """List the baselines that are kept."""
    from tracekit.checking.baseline import DEFAULT_FOLDER, load, names
    from tracekit.checking.tables import baseline_list
    from tracekit.cli._emit import emit

    folder = baselines or DEFAULT_FOLDER
    emit(baseline_list([load(name, folder) for name in names(folder)]), format_name)


@command.command()
@click.argument("name")
@_folder_option
@format_option
def show(name: str, baselines: Path | None, format_name: str) -> None:
    """Show what is kept of a run."""
    from tracekit.checking.baseline import DEFAULT_FOLDER, load
    from tracekit.checking.tables import baseline_rows
    from tracekit.cli._emit import emit

    emit(baseline_rows(load(name, baselines or DEFAULT_FOLDER)), format_name)
