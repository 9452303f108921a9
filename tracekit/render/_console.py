"""The terminal: its width, its colors, and the characters that its encoding supports."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console
from rich.text import Text

PIPED_WIDTH = 100
_MAX_WIDTH = 9999  # rich pads lines to the width
_MIN_WIDTH = 72

# Replacements for encodings without block characters, one character each to keep columns aligned.
_ASCII = str.maketrans(
    {
        "█": "#",
        "▓": "=",
        "▒": "~",
        "░": ".",
        "▉": "#",
        "▊": "#",
        "▋": "#",
        "▌": "#",
        "▍": "-",
        "▎": "-",
        "▏": "-",
        "─": "-",
        "…": "~",
        "–": "-",
        "·": "|",
        "×": "x",
        "µ": "u",
        "±": "~",
        "•": "*",
        "│": "|",
        "┤": "|",
        "└": "+",
    }
)


class _Console(Console):
    """A console that raises BrokenPipeError instead of exiting with code 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def make_console(stream: TextIO) -> Console:
    """Return a console without markup, with color only on a terminal and without NO_COLOR.

    `COLUMNS` overrides the width of the terminal. The width of other streams is 100.
    """
    is_terminal = stream.isatty()
    return _Console(
        file=stream,
        force_terminal=is_terminal,
        color_system="auto" if is_terminal and not os.environ.get("NO_COLOR") else None,
        no_color=bool(os.environ.get("NO_COLOR")),
        width=_width(stream, is_terminal),
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=True,
        # rich passes numbers of any length to int(), which rejects long ones.
        _environ={k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")},
    )


def print_lines(console: Console, lines: Iterable[Text]) -> None:
    """Print lines without wrapping or cropping; they are already laid out."""
    ascii_only = not _shows_blocks(console)
    for line in lines:
        line.rstrip()
        if ascii_only:
            line.plain = line.plain.translate(_ASCII)
        if line.style or line.spans:
            console.print(line)
        else:
            # rich takes ten times as long for a line, and tables may have a million.
            console.file.write(f"{line.plain}\n")


def _shows_blocks(console: Console) -> bool:
    try:
        "█…µ".encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _width(stream: TextIO, is_terminal: bool) -> int:
    columns = os.environ.get("COLUMNS", "").lstrip("0")
    if columns.isdecimal():
        # int() is slow for long numbers, or rejects them.
        return max(int(columns), _MIN_WIDTH) if len(columns) <= 4 else _MAX_WIDTH
    if is_terminal:
        try:
            # A terminal of unknown size reports 0.
            terminal = os.get_terminal_size(stream.fileno()).columns or PIPED_WIDTH
            return max(terminal, _MIN_WIDTH)
        except (OSError, ValueError):
            return PIPED_WIDTH
    return PIPED_WIDTH
