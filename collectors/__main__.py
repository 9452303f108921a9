"""`python -m tracekit.collectors`: `tracekit collect` for launchers that start a module."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from tracekit.errors import TracekitError, UsageError

from .arguments import all_arguments
from .collect import is_first_rank, run
from .command.options import GroupedCommand, argument_options
from .process.parent import TO_SWEEP

_INTERRUPTED = 130


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
    ended = run(values, ["python", "-m", "tracekit.collectors", *ctx.obj], _echo, program)
    # The stdout of a program is its own.
    if not program and is_first_rank():
        sys.stdout.write(f"{ended.folder}\n")
    return ended.exit_code


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code, as `tracekit collect` would."""
    TO_SWEEP.hold()
    words = list(sys.argv[1:] if args is None else args)
    end = words.index("--") if "--" in words else len(words)
    # DeepSpeed's launcher adds this to every program; LOCAL_RANK says the same.
    options = [word for word in words[:end] if not word.startswith("--local_rank=")]
    program = words[end:] if words[end + 1 :] else []
    words = [*options, *program]
    try:
        with command.make_context(command.name, list(words), obj=words) as ctx:
            return int(command.invoke(ctx))
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except TracekitError as error:
        _say(error.message, error.hint)
        return error.exit_code
    except click.UsageError as error:
        _say(error.format_message(), f"{command.name} --help shows what it takes")
        return UsageError.exit_code
    except (KeyboardInterrupt, click.Abort):
        _echo("")
        return _INTERRUPTED


def _echo(line: str) -> None:
    """Write a line to stderr: stdout is the result alone."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _say(message: str, hint: str | None) -> None:
    _echo(f"error: {message}")
    if hint:
        _echo(f"hint: {hint}")


if __name__ == "__main__":
    sys.exit(main())
