"""A table for people, on a terminal or in a pipe; a breakdown is one screen of sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from rich.text import Text

from tracekit.render._breakdown import breakdown_lines
from tracekit.render._console import make_console, print_lines
from tracekit.render._grid import fits, grid_lines
from tracekit.render.sections import drawing, in_place

if TYPE_CHECKING:
    from tracekit.analysis.result import Result


def render(
    data: Result | Mapping[str, Result],
    stream: TextIO,
    *,
    full: bool = False,
    units: bool = True,
    wide: bool = False,
) -> None:
    """Write a result as a table or a breakdown as one screen."""
    console = make_console(stream)
    if isinstance(data, Mapping):
        print_lines(console, breakdown_lines(data, console.width, full=full, wide=wide))
    elif shown := in_place(data, console.width):
        print_lines(console, shown)
    else:
        if drawn := drawing(data, console.width):
            print_lines(console, [*drawn, Text()])
        width = None if wide else console.width
        print_lines(console, grid_lines(data, width, units=units))


def width_of(stream: TextIO) -> int:
    """Return how many cells a line on a stream may take."""
    return make_console(stream).width


def is_grid(result: Result, stream: TextIO) -> bool:
    """Whether a result is shown as a table on a stream; it is records where no table would fit."""
    return fits(result, width_of(stream), units=True)
