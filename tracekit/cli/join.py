"""`tracekit join`: the run folders of one job into one."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="join")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN…")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    required=True,
    help="The run folder to make.",
)
@click.option("--force", is_flag=True, help="Replace the run folder if it exists.")
def command(runs: tuple[Path, ...], output: Path, force: bool) -> None:
    """Join the run folders that the nodes of one job left into one.

    Each RUN holds other ranks of the job. Other commands take them together without that:
    tracekit breakdown node0 node1.
    """
    from tracekit.ingest.join_runs import join_runs

    joined = join_runs(runs, output, force=force)
    held, count = len(joined.ranks), joined.parallel.world_size
    traces = len(joined.traces)
    click.echo(
        f"{held} of {count} ranks, {traces} trace{'' if traces == 1 else 's'}, "
        f"{joined.parallel.node_count} nodes",
        err=True,
    )
    click.echo(output)
