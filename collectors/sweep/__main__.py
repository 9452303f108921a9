"""`python -m tracekit.collectors.sweep`: a sweep where the analysis half is not installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from ..command.boundary import echo, exit_code_of
from ..command.options import GroupedCommand, argument_options
from .arguments import sweep_arguments
from .run import check, refuse_program, run_sweep


@click.command(name="python -m tracekit.collectors.sweep", cls=GroupedCommand)
@argument_options(sweep_arguments())
@click.pass_context
def command(ctx: click.Context, /, **values: object) -> int:
    """Run a grid of workloads under the profiler, one run folder for each."""
    refuse_program(ctx.meta["program"])
    check(run_sweep(values, echo))
    sys.stdout.write(f"{values['out']}\n")
    return 0


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code, as `tracekit sweep` would.

    Args:
        args: the arguments after the program's name; those of the process if None.
    """
    return exit_code_of(command, sys.argv[1:] if args is None else args)


if __name__ == "__main__":
    sys.exit(main())
