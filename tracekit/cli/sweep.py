"""`tracekit collect sweep`: a grid of runs, one folder each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import format_option
from tracekit.collectors.command_line import GroupedCommand
from tracekit.collectors.sweep.grid import OPTIONS
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracekit.analysis.result import Result
    from tracekit.manifest import Manifest


@click.command(name="sweep", cls=GroupedCommand, params=[*OPTIONS])
@format_option
@click.pass_context
def command(ctx: click.Context, /, format_name: str, **values: object) -> None:
    """Run a grid of methods, models, ranks, and batch sizes.

    Each combination is a process with a run folder of its own in RUNS. If you repeat the command,
    it skips finished runs and reruns failed ones. Out of memory is a result. `tracekit query
    methods RUNS` compares the runs.
    """
    from tracekit.collectors.sweep.run import check, run_sweep

    if ctx.meta["program"]:
        raise UsageError("sweep runs no program; use tracekit collect for that")
    results = run_sweep(values, lambda line: click.echo(line, err=True))
    emit(cells_result(results), format_name)
    check(results)
    click.echo(f"compare the runs: tracekit query methods {values['out']}", err=True)


def cells_result(results: Mapping[str, Manifest]) -> Result:
    """Return what became of each cell as a table."""
    from tracekit.analysis.result import Result, columns_of_text
    from tracekit.manifest import peak_bytes

    columns = columns_of_text(
        "cell VARCHAR, outcome VARCHAR, world_size BIGINT, batch_size BIGINT, "
        "tokens_per_s_mean DOUBLE, tokens_per_s_std DOUBLE, peak_bytes BIGINT, reason VARCHAR"
    )
    rows = [
        (
            *(name, run.outcome, run.parallel.world_size, run.batch_size),
            *(run.tokens_per_s_mean, run.tokens_per_s_std, peak_bytes(run), run.reason),
        )
        for name, run in results.items()
    ]
    return Result("sweep", columns, rows)
