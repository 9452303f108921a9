"""The page of the command line, from the help that the commands print."""

from __future__ import annotations

from pathlib import Path

import click

from tracekit.cli._main import group

from .markdown import console
from .sessions import run

PAGE = "docs/reference/command-line.md"


def command_line_page(folder: Path) -> dict[str, str]:
    """Return the page: every command's help, as it prints it.

    Args:
        folder: where commands keep what they write.
    """
    parts = [
        "# Command line\n",
        (
            "The help of every command, as it prints it. `tracekit query NAME --help` also shows"
            " the columns of an analysis, which stand [by subject](analyses/index.md).\n"
        ),
        console("tracekit --help", run("tracekit --help", folder)),
    ]
    context = click.Context(group, info_name="tracekit")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        parts += _help_of(f"tracekit {name}", folder)
        # The commands below query are the analyses.
        if isinstance(command, click.Group) and name != "query":
            below = click.Context(command, info_name=name, parent=context)
            for inner in command.list_commands(below):
                parts += _help_of(f"tracekit {name} {inner}", folder)
    return {PAGE: "\n".join(parts)}


def _help_of(words: str, folder: Path) -> list[str]:
    text = f"{words} --help"
    return [f"## {words}\n", console(text, run(text, folder))]
