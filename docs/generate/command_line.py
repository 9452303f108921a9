"""The page of the command line, from the help that the commands print."""

from __future__ import annotations

from pathlib import Path

from tracekit.cli._main import SECTIONS, subcommands

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
    for name in (name for names in SECTIONS.values() for name in names):
        parts += _help_of(f"tracekit {name}", folder)
        for word, command in subcommands(name).items():
            parts += _help_of(f"tracekit {name} {word}", folder)
            for inner in getattr(command, "commands", ()):
                parts += _help_of(f"tracekit {name} {word} {inner}", folder)
    return {PAGE: "\n".join(parts)}


def _help_of(words: str, folder: Path) -> list[str]:
    text = f"{words} --help"
    return [f"## {words}\n", console(text, run(text, folder))]
