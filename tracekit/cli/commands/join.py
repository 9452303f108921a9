"""`tracekit collect join`: merge the run folders of one job."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from tracekit import manifest
from tracekit.errors import StoreError, UsageError
from tracekit.ingest.sources import is_run, runs_below


@click.command(name="join")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN…")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    required=True,
    help="Run folder to write.",
)
@click.option("--force", is_flag=True, help="Replace the run folder if it exists.")
def command(runs: tuple[Path, ...], output: Path, force: bool) -> None:
    """Merge the per-node run folders of one job.

    Each RUN has some ranks of the job. Other commands also accept the folders directly: tracekit
    breakdown node0 node1.
    """
    joined = join_runs(runs, output, force=force)
    rank_count, count = len(joined.ranks), joined.parallel.world_size
    traces = len(joined.traces)
    click.echo(
        f"{rank_count} of {count} ranks, {traces} trace{'' if traces == 1 else 's'}, "
        f"{joined.parallel.node_count} nodes",
        err=True,
    )
    click.echo(output)


_LOGS = "logs"


def join_runs(folders: Sequence[Path], output: Path, *, force: bool = False) -> manifest.Manifest:
    """Merge the run folders of one job into a new folder, without changing them.

    Traces are hard-linked if possible to save disk space, or else copied.
    """
    run_manifest = [
        run for folder in folders for run in ([folder] if is_run(folder) else _below(folder))
    ]
    runs = [manifest.read(folder) for folder in run_manifest]
    _check_fragments(run_manifest, runs)
    if os.path.lexists(output) and not (force and is_run(output)):
        raise UsageError(
            f"{output} exists",
            hint="choose another name with -o"
            + (", or replace it with --force" if is_run(output) else ""),
        )
    whole = output.resolve()
    aside = whole.parent / f".{whole.name}.partial-{os.getpid()}"
    old = whole.parent / f".{whole.name}.partial-{os.getpid()}.old"
    try:
        joined = _fill(aside, run_manifest, runs)
        if output.is_dir():
            whole.rename(old)
        aside.rename(whole)
    except OSError as error:
        raise StoreError(
            f"{output}: the run folder cannot be written: {error.strerror or error}"
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return joined


def _below(folder: Path) -> list[Path]:
    result = list(runs_below(folder))
    if not result:
        raise UsageError(f"{folder} is not a run", hint="a run is a folder with run.json")
    return result


def _check_fragments(folders: Sequence[Path], runs: Sequence[manifest.Manifest]) -> None:
    if len(runs) < 2:
        raise UsageError("only one run was given, so there is nothing to join")
    if manifest.are_fragments(runs):
        return
    first = runs[0]
    for folder, run in zip(folders[1:], runs[1:], strict=True):
        if run.job_id is None or run.job_id != first.job_id:
            raise UsageError(f"{folders[0]} and {folder} belong to different jobs")
    raise UsageError("the runs contain a rank twice, or have different world sizes")


def _fill(
    target: Path, folders: Sequence[Path], runs: Sequence[manifest.Manifest]
) -> manifest.Manifest:
    """Link or copy the files of runs into a new folder, including files of later windows."""
    (target / _LOGS).mkdir(parents=True)
    for folder, run in zip(folders, runs, strict=True):
        for name in run.traces:
            _link_or_copy(folder / name, target / name)
        if (folder / _LOGS).is_dir():
            for log in sorted((folder / _LOGS).iterdir()):
                _link_or_copy(log, target / _LOGS / log.name)
    windows: dict[str, list[Path]] = {}
    for folder in folders:
        for inner in sorted(folder.iterdir()):
            if inner.is_dir() and is_run(inner):
                windows.setdefault(inner.name, []).append(inner)
    for name, fragments in windows.items():
        _fill(target / name, fragments, [manifest.read(one) for one in fragments])
    joined = manifest.join_fragments(runs)
    manifest.write(joined, target)
    return joined


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
