"""`python -m tracekit.collectors`: collect where the analysis half is not installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from .arguments import all_arguments
from .collect import is_first_rank, run
from .command.boundary import echo, exit_code_of
from .command.options import GroupedCommand, argument_options
from .process.parent import TO_SWEEP


@click.command(
    name="python -m tracekit.collectors",
    cls=GroupedCommand,
    options_metavar="[OPTIONS] [-- PROGRAM...]",
)
@argument_options(all_arguments())
@click.pass_context
def command(ctx: click.Context, /, **values: object) -> int:
    """Run an LLM workload under the profiler and leave a run folder."""
    program = ctx.meta["program"]
    ended = run(values, ["python", "-m", "tracekit.collectors", *ctx.obj], echo, program)
    # The stdout of a program is its own.
    if not program and is_first_rank():
        sys.stdout.write(f"{ended.folder}\n")
    return ended.exit_code


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code, as `tracekit collect` would.

    Args:
        args: the arguments after the program's name; those of the process if None.
    """
    TO_SWEEP.hold()
    words = list(sys.argv[1:] if args is None else args)
    end = words.index("--") if "--" in words else len(words)
    # DeepSpeed's launcher adds this to every program; LOCAL_RANK says the same.
    options = [word for word in words[:end] if not word.startswith("--local_rank=")]
    program = words[end:] if words[end + 1 :] else []
    return exit_code_of(command, [*options, *program])


if __name__ == "__main__":
    sys.exit(main())
