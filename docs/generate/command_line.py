"""Reference page of the command line, from the help of each command."""

from __future__ import annotations

from pathlib import Path

from tracekit.cli._main import SECTIONS, subcommands

from .markdown import console
from .sessions import run

PAGE = "docs/reference/command-line.md"


def command_line_page(folder: Path) -> dict[str, str]:
    """Return the page by its path.

    Args:
        folder: temporary folder for files that commands write.
    """
    parts = [
        "# Command line\n",
        (
            "The help of every command. `tracekit query NAME --help` also shows the columns of an"
            " analysis, which are listed [by subject](analyses/index.md).\n"
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
