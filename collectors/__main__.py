"""`python -m tracekit.collectors`: collect where the analysis half is not installed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from tracekit.errors import TracekitError

from .arguments import Argument, all_arguments
from .collect import is_first_rank, run
from .process.launch import end_with_sweep

INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """Return the command line of a single run."""
    return make_parser(
        all_arguments(),
        program="python -m tracekit.collectors",
        description="Run an LLM workload under the profiler and leave a run folder.",
    )


def make_parser(
    arguments: Iterable[Argument], *, program: str, description: str
) -> argparse.ArgumentParser:
    """Return a command line as argparse knows it, made from the arguments' data.

    Args:
        arguments: its options.
        program: its name in messages.
        description: the first lines of its help.
    """
    made = argparse.ArgumentParser(prog=program, description=description, allow_abbrev=False)
    groups: dict[str, argparse._ArgumentGroup] = {}
    for argument in arguments:
        if argument.group not in groups:
            groups[argument.group] = made.add_argument_group(argument.group)
        _add(groups[argument.group], argument)
    return made


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code, as `tracekit collect` would.

    Args:
        args: the arguments after the program's name; those of the process if None.
    """
    end_with_sweep()
    given = list(sys.argv[1:] if args is None else args)
    program: list[str] = []
    if "--" in given:
        at = given.index("--")
        given, program = given[:at], given[at + 1 :]
    # DeepSpeed's launcher adds this to every program; LOCAL_RANK says the same.
    given = [word for word in given if not word.startswith("--local_rank=")]
    try:
        values = vars(parser().parse_args(given))
        command = ["python", "-m", "tracekit.collectors", *given]
        if program:
            command += ["--", *program]
        ended = run(values, command, _echo, program)
    except TracekitError as error:
        _echo(f"error: {error.message}")
        if error.hint:
            _echo(f"hint: {error.hint}")
        return error.exit_code
    except KeyboardInterrupt:
        _echo("")
        return INTERRUPTED
    # The stdout of a program is its own.
    if not program and is_first_rank():
        sys.stdout.write(f"{ended.folder}\n")
    return ended.exit_code


def _add(group: argparse._ArgumentGroup, argument: Argument) -> None:
    meaning = argument.meaning
    if argument.default is not None:
        meaning += f" [default: {argument.default}]"
    meaning = meaning.replace("%", "%%")
    if argument.kind == "flag":
        group.add_argument(argument.name, action="store_true", help=meaning)
        return
    # Values stay text here: `settle` converts them and words the errors, for click as well.
    metavar = argument.metavar or (
        "{" + ",".join(argument.choices) + "}" if argument.choices else None
    )
    group.add_argument(argument.name, metavar=metavar, help=meaning)


def _echo(line: str) -> None:
    """Write a line to stderr: stdout is the run folder's path alone."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
