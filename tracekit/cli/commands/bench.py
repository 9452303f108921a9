"""`tracekit bench`: measure the peak rates of a machine."""

from __future__ import annotations

from pathlib import Path

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import format_option
from tracekit.collectors.bench.settings import OPTIONS, WHAT
from tracekit.collectors.command_line import GroupedCommand
from tracekit.errors import UsageError
from tracekit.render._text import printable

# \b keeps click from rewrapping the lines.
_EXAMPLES = """\b
Examples:
  tracekit bench all
  tracekit bench gemm --dtype bf16 --sizes 4096x4096x4096,8192x8192x8192
  tracekit bench collectives --nproc 8 --ops all_reduce --sizes 1KiB,1MiB,1GiB
  torchrun --nproc-per-node 8 --no-python tracekit bench collectives --out runs/nccl
"""


@click.command(name="bench", cls=GroupedCommand, params=[*OPTIONS], epilog=_EXAMPLES)
@click.argument("what", metavar=f"[{'|'.join(WHAT)}]", type=click.Choice(tuple(WHAT)))
@format_option
@click.pass_context
def command(ctx: click.Context, /, what: str, format_name: str, **values: object) -> None:
    """Benchmark GEMMs, copies, and collectives on this machine.

    Each point is repeated until the 95 % confidence interval of its median is narrow enough or its
    time limit is reached. Timing uses CUDA events on a GPU, the wall clock on a CPU. The run folder
    contains run.json and the raw times (benchmarks.jsonl). `tracekit query bench_gemm`
    (bench_memcpy, bench_collectives, bench_launches) shows rates. With `--peak-rates RUN`, other
    commands compare traces with the highest rates. Ctrl-C keeps the points measured so far.
    """
    from tracekit.collectors.bench.run import run

    if ctx.meta["program"]:
        raise UsageError("bench runs no program; use tracekit collect for that")
    try:
        folder = run(what, values, ctx.meta["command"], _echo)
    except KeyboardInterrupt:
        _echo("interrupted")
        raise
    if folder is None:
        return
    _echo(f"measured: {folder}")
    _show(folder, format_name)


def _show(folder: Path, format_name: str) -> None:
    from tracekit.analysis.breakdown import BENCH_BREAKDOWN
    from tracekit.cli._open import open_traces

    with open_traces([str(folder)]) as trace:
        result = trace.breakdown()
    emit({name: result[name] for name in BENCH_BREAKDOWN if result[name].rows}, format_name)


def _echo(line: str) -> None:
    click.echo(printable(line), err=True)
