"""Runs a command of `python -m`, and makes an exit code of whatever ends it.

Errors are worded as those of `tracekit` are; what that has besides needs the analysis half.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from tracekit.errors import TracekitError, UsageError

INTERRUPTED = 130


def exit_code_of(command: click.Command, words: Sequence[str]) -> int:
    """Run a command and return its exit code.

    Args:
        command: returns its exit code; it finds the words in `Context.obj`.
        words: what follows its name.
    """
    try:
        with command.make_context(command.name, list(words), obj=list(words)) as ctx:
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
        echo("")
        return INTERRUPTED


def echo(line: str) -> None:
    """Write a line to stderr: stdout is the result alone."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _say(message: str, hint: str | None) -> None:
    echo(f"error: {message}")
    if hint:
        echo(f"hint: {hint}")
