"""`tracekit check baseline`: what a run was like, kept small for later checks."""

from __future__ import annotations

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import (
    baselines_option,
    format_option,
    no_cache_option,
    per_option,
    skip_option,
)
from tracekit.errors import UsageError


@click.group(name="baseline")
def command() -> None:
    """Save, list, and show baselines for `tracekit check`."""


@command.command()
@click.argument("name")
@click.argument("trace", metavar="TRACE")
@baselines_option
@per_option
@skip_option
@click.option("--force", is_flag=True, help="Replace an existing baseline with the same name.")
@no_cache_option
def save(
    name: str,
    trace: str,
    baselines: str | None,
    per: str | None,
    skip: int,
    force: bool,
    no_cache: bool,
) -> None:
    """Save a run as a named baseline.

    The file holds times by step, part, class, phase, module and op, no events: tens of kB to be
    kept beside the code.
    """
    import tracekit
    from tracekit.checking.baseline import DEFAULT_FOLDER, names, path_of
    from tracekit.checking.baseline import save as write
    from tracekit.checking.checking import keep
    from tracekit.cli._progress import progress_bar
    from tracekit.storage import Location

    folder = baselines or DEFAULT_FOLDER
    place = path_of(name, folder)
    if not force and name in names(folder):  # said before a trace is read
        raise UsageError(
            f"{place}: baseline {name!r} already exists", hint="use --force to replace it"
        )
    with (
        progress_bar() as progress,
        tracekit.open(trace, cache=not no_cache, progress=progress) as opened,
    ):
        kept = keep(name, opened, Location.of(trace).name, per=per, skip=skip)  # type: ignore[arg-type]
    place, size_bytes = write(kept, folder, replaces=force)
    click.echo(f"{place}: {len(kept.side.sample_units):,} samples, {size_bytes:,} bytes")


@command.command(name="list")
@baselines_option
@format_option
def list_baselines(baselines: str | None, format_name: str) -> None:
    """List the baselines."""
    from tracekit.checking.baseline import DEFAULT_FOLDER, baseline_list, load, names

    folder = baselines or DEFAULT_FOLDER
    emit(baseline_list([load(name, folder) for name in names(folder)]), format_name)


@command.command()
@click.argument("name")
@baselines_option
@format_option
def show(name: str, baselines: str | None, format_name: str) -> None:
    """Show a baseline."""
    from tracekit.checking.baseline import DEFAULT_FOLDER, baseline_rows, load

    emit(baseline_rows(load(name, baselines or DEFAULT_FOLDER)), format_name)
