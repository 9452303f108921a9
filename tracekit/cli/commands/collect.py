"""`tracekit collect`: run a workload under the profiler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import format_option
from tracekit.collectors.command_line import GroupedCommand
from tracekit.collectors.options import OPTIONS
from tracekit.collectors.sweep.grid import OPTIONS as SWEEP_OPTIONS
from tracekit.errors import TracekitError, UsageError
from tracekit.render._text import printable
from tracekit.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracekit.analysis.result import Result
    from tracekit.manifest import Manifest

# \b keeps click from rewrapping the lines.
_EXAMPLES = """\b
Examples:
  tracekit collect --opt R+Z3 --nproc 2 --breakdown
  tracekit collect --stage finetune --opt QL+F+R --model llama2-7b --preset paper
  tracekit collect --stage serve
  tracekit collect --out runs/mine -- python train.py
"""


@click.command(
    name="collect",
    cls=GroupedCommand,
    params=[*OPTIONS],
    options_metavar="[OPTIONS] [-- PROGRAM...]",
    epilog=_EXAMPLES,
)
@click.option("--breakdown", is_flag=True, help="Show the breakdown of the new run.")
@click.option(
    "--against",
    metavar="RUN",
    help="Verify advice for RUN with the new run, like tracekit advise RUN --against NEW. "
    "Reuses an existing run in --out.",
)
@click.option(
    "--rule", metavar="NAME", help="Name of the advice of RUN to verify.  [default: the first]"
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    breakdown: bool,
    against: str | None,
    rule: str | None,
    **values: object,
) -> None:
    """Record a training, fine-tuning, or serving run.

    Prints the run folder, which contains run.json and one trace per rank. Throughput and memory are
    measured without the profiler. Additional steps are profiled.

    Under torchrun or deepspeed (RANK and WORLD_SIZE are set), the process becomes one of the ranks
    instead of starting them. Running out of memory is recorded in the folder, with exit code 6.

    Your own PROGRAM keeps its output, signals, and exit code; messages about the run folder go
    to stderr.
    """
    from tracekit.collectors.collect import is_first_rank, run
    from tracekit.manifest import FILE_NAME

    if rule is not None and against is None:
        raise UsageError("--rule needs --against")
    if against is not None:
        if not Path(against).exists():
            raise UsageError(f"--against {against}: no such run")
        out = values.get("out")
        if isinstance(out, Path) and (out / FILE_NAME).is_file() and not values.get("force"):
            _verify(ctx, against, out, rule)
            return
    program = ctx.meta["program"]
    try:
        ended = run(values, ctx.meta["command"], _echo, program, _serving_figures)
    except KeyboardInterrupt:
        # Serving reports its files itself.
        if values.get("stage") != "serve":
            _echo("interrupted; no run folder was written")
        raise
    if is_first_rank() and ended.folder is not None:
        if breakdown:
            from tracekit.cli._open import open_traces

            with open_traces([str(ended.folder)]) as trace:
                emit(trace.breakdown(), "table")
        if against is not None and not ended.exit_code:
            _verify(ctx, against, ended.folder, rule)
        elif not breakdown and not program:  # stdout belongs to the program
            click.echo(ended.folder)
    ctx.exit(ended.exit_code)


def _verify(ctx: click.Context, base: str, changed: Path, rule: str | None) -> None:
    from tracekit.cli.commands import advise
    from tracekit.collectors.collect import is_first_rank

    if is_first_rank():
        ctx.invoke(advise.command, traces=(base,), against=str(changed), rule=rule)


def _echo(line: str) -> None:
    click.echo("\n".join(map(printable, line.split("\n"))), err=True)


def _serving_figures(folder: Path) -> list[str]:
    """Return the throughput and latencies of a load as lines, or the error."""
    import tracekit

    try:
        with tracekit.open(folder, traces=False, cache=False) as trace:
            throughput, latency = (trace.query(name) for name in ("throughput", "latency"))
    except TracekitError as error:
        return [f"cannot show its figures: {error.message}"]
    out = []
    for row in throughput.to_dicts():
        if row["output_tokens_per_s"] is not None:
            rate = f"{row['output_tokens_per_s']:,.0f} output tokens/s"
            out.append(f"throughput: {rate} over {format_duration(row['interval_ns'])}")
    rows = {row["metric"]: row for row in latency.to_dicts()}
    for metric, name in (("e2e", "latency"), ("ttft", "time to first token")):
        times = rows.get(metric, {})
        if times.get("value_count"):
            shown = ", ".join(
                f"{of} {format_duration(times[f'{of}_ns'])}" for of in ("p50", "p99", "max")
            )
            out.append(f"{name}: {shown}")
    return out


@click.command(name="sweep", cls=GroupedCommand, params=[*SWEEP_OPTIONS])
@format_option
@click.pass_context
def sweep(ctx: click.Context, /, format_name: str, **values: object) -> None:
    """Run a grid of methods, models, ranks, and batch sizes.

    Each combination runs in its own process and writes its own run folder in RUNS. If you repeat
    the command, it skips finished runs and reruns failed ones. A run that ran out of memory counts
    as finished. `tracekit query methods RUNS` compares the runs.
    """
    from tracekit.collectors.sweep.run import check, run_sweep

    if ctx.meta["program"]:
        raise UsageError("sweep runs no program; use tracekit collect for that")
    results = run_sweep(values, lambda line: click.echo(line, err=True))
    emit(_cells_result(results), format_name)
    check(results)
    click.echo(f"compare the runs: tracekit query methods {values['out']}", err=True)


def _cells_result(results: Mapping[str, Manifest]) -> Result:
    """Return the outcome of each combination as a table."""
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
